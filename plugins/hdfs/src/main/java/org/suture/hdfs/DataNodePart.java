package org.suture.hdfs;

import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/**
 * The plugin of a DataNode. It serves the agent of this machine over a unix socket, to one user only;
 * the kernel says who that is.
 */
final class DataNodePart implements PluginPart {
  static final String SOCKET = "suture.agent.socket";
  static final String USER = "suture.agent.user";

  /** Connections of one agent; each holds two buffers of at most 1 MiB. */
  private static final int CONNECTIONS_MAX = 24;

  private final Semaphore places = new Semaphore(CONNECTIONS_MAX);
  private final Set<SocketChannel> open = ConcurrentHashMap.newKeySet();
  private UnixSockets sockets;
  private ServerSocketChannel listener;
  private Path path;
  private String user;
  private Replicas replicas;
  private volatile boolean isStopping;

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
    thread.start();
    PluginMetrics.get().state(PluginMetrics.WAITING);
    PluginLog.LOG.info("Suture: on; serves the agent of user {} at {}", user, path);
  }

  /** Takes the socket's name, from a daemon that was killed too; others may not even connect. */
  private void listen() throws IOException {
    if (path.getParent() == null || !Files.isDirectory(path.getParent())) {
      throw new IOException(SOCKET + " is '" + path + "', whose folder is not there");
    }
    Files.deleteIfExists(path);
    listener = sockets.listen(path);
    boolean isOwn = user.equals(System.getProperty("user.name"));
    Files.setPosixFilePermissions(path,
        PosixFilePermissions.fromString(isOwn ? "rw-------" : "rw-rw-rw-"));
  }

  private void accept() {
    while (!isStopping) {
      try {
        SocketChannel connection = listener.accept();
        if (!places.tryAcquire()) {
          connection.close();
          continue;
        }
        open.add(connection);
        Thread thread = new Thread(() -> serve(connection), "suture-hdfs-agent");
        thread.setDaemon(true);
        thread.start();
      } catch (IOException | RuntimeException e) {
        if (!isStopping) {
          PluginLog.LOG.warn("Suture: an agent's connection failed: {}", PluginLog.reason(e));
        }
        if (!listener.isOpen()) {
          return;
        }
      }
    }
  }

  private void serve(SocketChannel connection) {
    try (SocketChannel channel = connection) {
      String found = sockets.user(channel);
      Frames frames = new Frames(Channels.newInputStream(channel),
          Channels.newOutputStream(channel), channel);
      if (!found.equals(user)) {
        PluginLog.LOG.warn("Suture: user {} is refused at {}: {} is {}", found, path, USER, user);
        frames.send(Message.error("refused", "this DataNode serves user " + user + ", not "
            + found + ": correct " + USER + " or the agent's user"));
        return;
      }
      PluginMetrics.get().state(PluginMetrics.SERVING);
      new AgentSession(frames, replicas).serve();
    } catch (IOException | RuntimeException | LinkageError e) {
      if (!isStopping) {
        PluginLog.LOG.debug("Suture: a connection of the agent ended: {}", PluginLog.reason(e));
      }
    } finally {
      open.remove(connection);
      places.release();
      if (open.isEmpty() && !isStopping) {
        PluginMetrics.get().state(PluginMetrics.WAITING);
      }
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
    } catch (IOException e) {
      PluginLog.LOG.debug("Suture: {}", PluginLog.reason(e));
    }
  }
}
