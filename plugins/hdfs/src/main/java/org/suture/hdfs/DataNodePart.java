package org.suture.hdfs;

import java.io.IOException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/**
 * The plugin of a DataNode. It serves the agent of this machine over a unix socket, to one user
 * only; the kernel says who that is.
 */
final class DataNodePart implements PluginPart {
  static final String SOCKET = "suture.agent.socket";
  static final String USER = "suture.agent.user";

  /** Connections of one agent; each holds two buffers of at most 1 MiB. */
  static final int CONNECTIONS_MAX = 16;
  /** The pause after a connection could not be had or served: descriptors or threads are short. */
  private static final int PAUSE_MILLIS = 100;
  /** How often agents are looked for that have begun something and hang. */
  private static final int WATCH_MILLIS = 10_000;

  private final ThreadFactory threads;
  private final Semaphore places = new Semaphore(CONNECTIONS_MAX);
  private final Set<SocketChannel> open = ConcurrentHashMap.newKeySet();
  /** What is served over those of them that have said who they are. */
  private final Map<SocketChannel, AgentSession> sessions = new ConcurrentHashMap<>();
  private UnixSockets sockets;
  private ServerSocketChannel listener;
  private Path path;
  private String user;
  private Replicas replicas;
  private Thread watcher;
  private String lastTrouble = "";
  private final AtomicReference<String> lastFault = new AtomicReference<>("");
  private volatile boolean isStopping;

  DataNodePart() {
    this(work -> new Thread(work, "suture-hdfs-agent"));
  }

  DataNodePart(ThreadFactory threads) {
    this.threads = threads;
  }

  @Override
  public void start(Object service) throws Exception {
    HadoopRelease.check();
    DataNode node = (DataNode) service;
    Configuration conf = node.getConf();
    sockets = new UnixSockets();
    String socket = conf.getTrimmed(SOCKET, "");
    if (socket.isEmpty()) {
      throw new IllegalStateException(
          SOCKET + " is not set: name the socket on which the agent is served");
    }
    // As in dfs.domain.socket.path: for machines with several DataNodes.
    path = Paths.get(socket.replace("_PORT", String.valueOf(node.getXferPort())));
    user = conf.getTrimmed(USER, System.getProperty("user.name"));
    replicas = new Replicas(node);
    listen();
    Thread thread = new Thread(this::accept, "suture-hdfs");
    thread.setDaemon(true);
    watcher = new Thread(this::watch, "suture-hdfs-watch");
    watcher.setDaemon(true);
    watcher.start();
    PluginMetrics.get().state(PluginMetrics.WAITING);
    thread.start();
    PluginLog.LOG.info("Suture: on; serves the agent of user {} at {}", user, path);
  }

  /** Takes the socket's name, from a daemon that was killed too; others may not even connect. */
  private void listen() throws IOException {
    if (path.getParent() == null || !Files.isDirectory(path.getParent())) {
      throw new IOException(SOCKET + " is '" + path + "', whose folder is not there");
    }
    removeWhatIsLeft();
    listener = sockets.listen(path);
    boolean isOwn = user.equals(System.getProperty("user.name"));
    Files.setPosixFilePermissions(path,
        PosixFilePermissions.fromString(isOwn ? "rw-------" : "rw-rw-rw-"));
  }

  /** Removes the socket of a daemon that is gone, and nothing else that has this name. */
  private void removeWhatIsLeft() throws IOException {
    BasicFileAttributes found;
    try {
      found = Files.readAttributes(path, BasicFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
    } catch (NoSuchFileException e) {
      return;
    }
    if (!found.isOther()) {
      throw new IOException(SOCKET + " is '" + path + "', which is there and is no socket");
    }
    if (sockets.isServed(path)) {
      throw new IOException(SOCKET + " is '" + path + "', which another process serves: put _PORT in"
          + " its name where a machine has several DataNodes");
    }
    Files.deleteIfExists(path);
  }

  private void accept() {
    while (!isStopping && listener.isOpen()) {
      try {
        if (begin(listener.accept())) {
          lastTrouble = "";
        }
      } catch (IOException | RuntimeException | VirtualMachineError e) {
        trouble(PluginLog.reason(e));
      }
    }
  }

  private void watch() {
    while (!isStopping) {
      try {
        Thread.sleep(WATCH_MILLIS);
      } catch (InterruptedException e) {
        return;
      }
      sessions.forEach((channel, session) -> {
        if (session.isForsaken()) {
          PluginLog.LOG.warn("Suture: an agent began a block and hangs: it is given up");
          close(channel);
        }
      });
    }
  }

  private static void close(SocketChannel channel) {
    try {
      channel.close();
    } catch (IOException e) {
      PluginLog.LOG.debug("Suture: {}", PluginLog.reason(e));
    }
  }

  private void trouble(String what) {
    if (!isStopping && !what.equals(lastTrouble)) {
      PluginLog.LOG.warn("Suture: an agent's connection failed: {}", what);
    }
    lastTrouble = what;
    try {
      Thread.sleep(PAUSE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * Gives a connection a thread of its own; where there is none, its place is free again. Says
   * whether it is served.
   */
  private boolean begin(SocketChannel connection) throws IOException {
    if (!places.tryAcquire()) {
      connection.close();
      trouble("all " + CONNECTIONS_MAX + " are in use");
      return false;
    }
    boolean isServed = false;
    try {
      open.add(connection);
      Thread thread = threads.newThread(() -> serve(connection));
      thread.setDaemon(true);
      thread.start();
      isServed = true;
      return true;
    } finally {
      if (!isServed) {
        open.remove(connection);
        places.release();
        connection.close();
      }
    }
  }

  private void serve(SocketChannel connection) {
    try (SocketChannel channel = connection) {
      String found = sockets.user(channel);
      Frames frames = ChannelSteps.frames(channel);
      if (!found.equals(user)) {
        PluginLog.LOG.warn("Suture: user {} is refused at {}: {} is {}", found, path, USER, user);
        frames.send(Message.error("refused", "this DataNode serves user " + user + ", not "
            + found + ": correct " + USER + " or the agent's user"));
        return;
      }
      PluginMetrics.get().state(PluginMetrics.SERVING);
      AgentSession session = new AgentSession(frames, replicas);
      sessions.put(channel, session);
      session.serve();
    } catch (IOException e) {
      if (!isStopping) {
        PluginLog.LOG.debug("Suture: a connection of the agent ended: {}", PluginLog.reason(e));
      }
    } catch (RuntimeException | LinkageError e) {
      fault(e);
    } finally {
      sessions.remove(connection);
      open.remove(connection);
      places.release();
      if (open.isEmpty() && !isStopping) {
        PluginMetrics.get().state(PluginMetrics.WAITING);
      }
    }
  }

  /** This Hadoop lacks something, or there is a mistake here: the agent asks it again and again. */
  private void fault(Throwable error) {
    String why = PluginLog.reason(error);
    if (!isStopping && !why.equals(lastFault.getAndSet(why))) {
      PluginLog.LOG.error("Suture: an agent's request failed in this DataNode: {}", why, error);
    }
  }

  @Override
  public void stop() {
    isStopping = true;
    try {
      if (listener != null) {
        listener.close();
        Files.deleteIfExists(path);
      }
      for (SocketChannel connection : open) {
        connection.close();
      }
      if (watcher != null) {
        watcher.interrupt();
      }
    } catch (IOException e) {
      PluginLog.LOG.debug("Suture: {}", PluginLog.reason(e));
    }
  }
}
