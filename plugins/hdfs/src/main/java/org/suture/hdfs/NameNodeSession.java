package org.suture.hdfs;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.HashMap;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSession;
import javax.net.ssl.SSLSocket;
import org.apache.hadoop.util.VersionInfo;

/**
 * The conversation with the coordinator: this end connects, and then answers what it is asked.
 *
 * One thread, one connection, one request at a time. A connection on which nothing is asked for
 * {@link #SILENCE_MILLIS} is over; another is tried after a while. The lease ends by itself. A
 * connection ends, too, once its certificates would not make it again.
 *
 * What is so is said once for as long as it stays the same. A NameNode that stands by need not be
 * asked: that it was not is nothing to be said.
 */
final class NameNodeSession implements Runnable {
  private static final int CONNECT_MILLIS = 10_000;
  /** The coordinator asks something every second. */
  private static final int SILENCE_MILLIS = 30_000;
  private static final long JUDGE_MILLIS = 10_000;
  private static final long RETRY_MILLIS_MIN = 1_000;
  private static final long RETRY_MILLIS_MAX = 15_000;
  private static final String CONNECTED = "connected";

  private final NameNodeSettings settings;
  private final Served served;
  private final int silenceMillis;
  private final long judgeMillis;
  private final Thread thread = new Thread(this, "suture-hdfs");
  private volatile boolean isStopping;
  private volatile Socket socket;
  /** What certificates have proven of this connection; null where there are none. */
  private SSLSession proven;
  /** When they were judged last. */
  private long judgedNanos;
  /** Whether the other end has made use of the connection, or need not. */
  private boolean wasWanted;
  private String lastSaid = "";
  /** Why a request of each kind failed that has not succeeded since. */
  private final Map<String, String> failures = new HashMap<>();

  NameNodeSession(NameNodeSettings settings, Served served) {
    this(settings, served, SILENCE_MILLIS, JUDGE_MILLIS);
  }

  NameNodeSession(NameNodeSettings settings, Served served, int silenceMillis, long judgeMillis) {
    this.settings = settings;
    this.served = served;
    this.silenceMillis = silenceMillis;
    this.judgeMillis = judgeMillis;
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
      wasWanted = false;
      try (Frames frames = connect()) {
        greet(frames);
        serve(frames);
      } catch (Exception | LinkageError | VirtualMachineError e) {
        trouble(PluginLog.reason(e));
      } finally {
        PluginMetrics.get().state(PluginMetrics.WAITING);
      }
      served.releaseAll();
      // Who greets and then hangs up is asked as seldom as who is not there.
      wait = wasWanted ? RETRY_MILLIS_MIN : wait;
      try {
        Thread.sleep(wait);
      } catch (InterruptedException e) {
        return;
      }
      wait = Math.min(2 * wait, RETRY_MILLIS_MAX);
    }
  }

  private void trouble(String what) {
    if (!isStopping && !what.equals(lastSaid)) {
      PluginLog.LOG.warn("Suture: no coordinator at {}, HDFS repairs by itself: {}", this, what);
    }
    lastSaid = what;
  }

  private void connected() {
    wasWanted = true;
    if (!isStopping && !lastSaid.equals(CONNECTED)) {
      PluginLog.LOG.info("Suture: connected to the coordinator at {}", this);
    }
    lastSaid = CONNECTED;
  }

  private Frames connect() throws IOException {
    // What is wrong at this end is said whether or not there is another.
    SSLContext own = settings.credentials == null ? null : settings.credentials.context();
    Socket plain = new Socket();
    socket = plain;
    proven = null;
    try {
      plain.connect(settings.address(), CONNECT_MILLIS);
      plain.setTcpNoDelay(true);
      plain.setSoTimeout(silenceMillis);
      Socket to = own == null ? plain : encrypted(plain, own);
      return new Frames(new BufferedInputStream(to.getInputStream()),
          new BufferedOutputStream(to.getOutputStream()), to);
    } catch (IOException | RuntimeException e) {
      plain.close();
      throw e;
    }
  }

  private Socket encrypted(Socket plain, SSLContext own) throws IOException {
    SSLSocket to = (SSLSocket) own.getSocketFactory()
        .createSocket(plain, settings.host, settings.port, true);
    SSLParameters parameters = to.getSSLParameters();
    parameters.setProtocols(new String[] {"TLSv1.3"});
    to.setSSLParameters(parameters);
    to.startHandshake();
    String peer = Credentials.peer(to.getSession());
    if (!peer.startsWith("coordinator/")) {
      throw new IOException("the other end proves to be " + peer + ", not a coordinator");
    }
    proven = to.getSession();
    judgedNanos = System.nanoTime();
    return to;
  }

  /** Looks at the certificates of the connection once in a while. */
  private void judge() throws IOException {
    if (proven != null && System.nanoTime() - judgedNanos >= judgeMillis * 1_000_000) {
      settings.credentials.judge(proven);
      judgedNanos = System.nanoTime();
    }
  }

  private void greet(Frames frames) throws IOException {
    frames.send(Message.empty().with("protocol", Frames.PROTOCOL)
        .with("hadoop", VersionInfo.getVersion())
        .with("pool", served.blockPool()).with("condemns", true));
    Message welcome = frames.expect();
    if (welcome.has("error")) {
      throw new ProtocolException("refused by it: " + welcome.text("why"));
    }
    if (!welcome.text("protocol").equals(Frames.PROTOCOL)) {
      throw new ProtocolException("it speaks " + welcome.text("protocol") + ", this plugin "
          + Frames.PROTOCOL + ": run the same Suture on both");
    }
    served.beginSession();
  }

  /** Returns where the connection ended and nothing is to be said about it. */
  private void serve(Frames frames) throws IOException {
    while (!isStopping) {
      Message request;
      try {
        request = frames.expect();
      } catch (SocketTimeoutException e) {
        if (!served.isActive()) {
          wasWanted = true;
          return;
        }
        throw new IOException("it has asked nothing for " + silenceMillis / 1000 + " s");
      }
      judge();
      connected();
      Message answer = answer(request);
      try {
        frames.send(answer);
      } catch (IllegalArgumentException e) {
        // Nothing was sent of what is too long.
        frames.send(Message.error("failed", PluginLog.reason(e)));
      }
    }
  }

  /**
   * What goes wrong inside the NameNode is an answer; what breaks the protocol ends the session.
   */
  private Message answer(Message request) throws ProtocolException {
    String op = request.text("op");
    boolean isServing = served.isServing();
    PluginMetrics.get().state(isServing ? PluginMetrics.SERVING : PluginMetrics.WAITING);
    if (op.equals("state")) {
      return Message.empty().with("active", isServing);
    }
    if (!isServing) {
      served.pause();
      return Message.error("standby", "this NameNode is not the active one, or in safe mode");
    }
    try {
      Message answer = served.answer(op, request);
      failures.remove(op);
      return answer;
    } catch (RuntimeException | LinkageError e) {
      String why = PluginLog.reason(e);
      // It is asked again every second.
      if (!why.equals(failures.put(op, why))) {
        PluginLog.LOG.error("Suture: request {} failed: {}", op, why, e);
      }
      return Message.error("failed", why);
    }
  }

  @Override
  public String toString() {
    return settings.toString();
  }
}
