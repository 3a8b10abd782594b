package org.suture.hdfs;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.net.Socket;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.util.VersionInfo;

/**
 * The conversation with the coordinator: this end connects, and then answers what it is asked.
 *
 * One thread, one connection, one request at a time. A connection on which nothing is asked for
 * {@link #SILENCE_MILLIS} is over; another is tried after a while. The lease ends by itself.
 */
final class NameNodeSession implements Runnable {
  private static final int CONNECT_MILLIS = 10_000;
  /** The coordinator asks something every second. */
  private static final int SILENCE_MILLIS = 30_000;
  private static final long RETRY_MILLIS_MIN = 1_000;
  private static final long RETRY_MILLIS_MAX = 15_000;

  private final NameNodeSettings settings;
  private final NameNode node;
  private final Namespace namespace;
  private final Thread thread = new Thread(this, "suture-hdfs");
  private volatile boolean isStopping;
  private volatile Socket socket;
  private String lastTrouble = "";

  NameNodeSession(NameNodeSettings settings, NameNode node, Namespace namespace) {
    this.settings = settings;
    this.node = node;
    this.namespace = namespace;
    thread.setDaemon(true);
  }

  void start() {
    PluginMetrics.get().state(PluginMetrics.WAITING);
    thread.start();
  }

  void stop() {
    isStopping = true;
    thread.interrupt();
    Socket open = socket;
    if (open != null) {
      try {
        open.close();
      } catch (IOException e) {
        // It ends with the process.
      }
    }
  }

  @Override
  public void run() {
    long wait = RETRY_MILLIS_MIN;
    while (!isStopping) {
      try (Frames frames = connect()) {
        greet(frames);
        wait = RETRY_MILLIS_MIN;
        PluginMetrics.get().state(PluginMetrics.SERVING);
        lastTrouble = "";
        PluginLog.LOG.info("Suture: connected to the coordinator at {}", this);
        serve(frames);
        trouble("the coordinator has hung up");
      } catch (Exception | LinkageError e) {
        trouble(PluginLog.reason(e));
      } finally {
        PluginMetrics.get().state(PluginMetrics.WAITING);
      }
      namespace.releaseAll();
      try {
        Thread.sleep(wait);
      } catch (InterruptedException e) {
        return;
      }
      wait = Math.min(2 * wait, RETRY_MILLIS_MAX);
    }
  }

  /** Says what is wrong, once for as long as it stays the same. */
  private void trouble(String what) {
    if (!isStopping && !what.equals(lastTrouble)) {
      PluginLog.LOG.warn("Suture: no coordinator at {}, HDFS repairs by itself: {}", this, what);
    }
    lastTrouble = what;
  }

  private Frames connect() throws IOException {
    Socket plain = new Socket();
    socket = plain;
    try {
      plain.connect(settings.address(), CONNECT_MILLIS);
      plain.setTcpNoDelay(true);
      plain.setSoTimeout(SILENCE_MILLIS);
      Socket to = settings.credentials == null ? plain : encrypted(plain);
      return new Frames(new BufferedInputStream(to.getInputStream()),
          new BufferedOutputStream(to.getOutputStream()), to);
    } catch (IOException e) {
      plain.close();
      throw e;
    }
  }

  private Socket encrypted(Socket plain) throws IOException {
    SSLSocket to = (SSLSocket) settings.credentials.context().getSocketFactory()
        .createSocket(plain, settings.host, settings.port, true);
    SSLParameters parameters = to.getSSLParameters();
    parameters.setProtocols(new String[] {"TLSv1.3"});
    to.setSSLParameters(parameters);
    to.startHandshake();
    String peer = Credentials.peer(to.getSession());
    if (!peer.startsWith("coordinator/")) {
      throw new IOException("the other end proves to be " + peer + ", not a coordinator");
    }
    return to;
  }

  private void greet(Frames frames) throws IOException {
    frames.send(Message.empty().with("protocol", Frames.PROTOCOL)
        .with("hadoop", VersionInfo.getVersion())
        .with("pool", namespace.blockPool()));
    Message welcome = frames.expect();
    if (welcome.has("error")) {
      throw new ProtocolException("refused by it: " + welcome.text("why"));
    }
    if (!welcome.text("protocol").equals(Frames.PROTOCOL)) {
      throw new ProtocolException("it speaks " + welcome.text("protocol") + ", this plugin "
          + Frames.PROTOCOL + ": run the same Suture on both");
    }
    namespace.beginSession();
  }

  private void serve(Frames frames) throws IOException {
    while (!isStopping) {
      Message request = frames.receive();
      if (request == null) {
        return;
      }
      frames.send(answer(request));
    }
  }

  /** What goes wrong inside the NameNode is an answer; what breaks the protocol ends the session. */
  private Message answer(Message request) throws ProtocolException {
    String op = request.text("op");
    if (op.equals("state")) {
      return state();
    }
    if (!isServing()) {
      namespace.retire();
      return Message.error("standby", "this NameNode is not the active one, or in safe mode");
    }
    try {
      return namespace.answer(op, request);
    } catch (RuntimeException | LinkageError e) {
      PluginLog.LOG.error("Suture: request {} failed", op, e);
      return Message.error("failed", PluginLog.reason(e));
    }
  }

  private boolean isServing() {
    return node.isActiveState() && namespace.isReady();
  }

  private Message state() {
    return Message.empty().with("active", isServing());
  }

  @Override
  public String toString() {
    return settings.toString();
  }
}
