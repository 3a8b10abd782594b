package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** What the NameNode's end says and shows of its connection, without a NameNode. */
public class NameNodeSessionTest {
  private static final int SILENCE_MILLIS = 300;

  /** A namespace of which the answers are known. */
  private static final class FakeNamespace implements Served {
    volatile boolean isActive = true;
    volatile boolean isServing = true;
    /** A kind of request that fails. */
    volatile String broken = "";
    final AtomicInteger pauses = new AtomicInteger();
    final AtomicInteger releases = new AtomicInteger();

    @Override
    public String blockPool() {
      return "BP-1";
    }

    @Override
    public boolean isActive() {
      return isActive;
    }

    @Override
    public boolean isServing() {
      return isServing;
    }

    @Override
    public void beginSession() {
    }

    @Override
    public Message answer(String op, Message request) {
      if (op.equals(broken)) {
        throw new NoSuchMethodError("BlockManager.countNodes");
      }
      String text = op.equals("long") ? "x".repeat(Frames.JSON_BYTES_MAX) : op;
      return Message.empty().with("asked", text);
    }

    @Override
    public void pause() {
      pauses.incrementAndGet();
    }

    @Override
    public void releaseAll() {
      releases.incrementAndGet();
    }
  }

  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  private final FakeNamespace namespace = new FakeNamespace();
  private FakeCoordinator coordinator;
  private NameNodeSession session;
  private Said said;

  @Before
  public void start() throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true);
    coordinator = new FakeCoordinator();
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.COORDINATOR, coordinator.address());
    said = new Said();
    session = new NameNodeSession(NameNodeSettings.of(conf), namespace, SILENCE_MILLIS, 0);
    session.start();
  }

  @After
  public void stop() throws Exception {
    session.stop();
    coordinator.close();
    said.close();
  }

  private static int state() {
    return PluginMetrics.get().state.value();
  }

  private List<String> lines(String word) {
    return said.lines().stream().filter(line -> line.contains(word)).collect(Collectors.toList());
  }

  @Test
  public void aNameNodeThatStandsByIsNotAskedAndSaysNothingAboutIt() throws Exception {
    namespace.isActive = false;
    namespace.isServing = false;
    coordinator.welcome();
    assertTrue(coordinator.ask("state").toString().contains("active=false"));
    assertEquals(PluginMetrics.WAITING, state());
    assertThrows(IOException.class, () -> coordinator.ask("groups"));
    assertEquals(1, namespace.pauses.get());
    // It hangs up, and is there again.
    coordinator.welcome();
    coordinator.welcome();
    assertEquals(said.lines().toString(), 1, said.lines().size());
    assertTrue(said.lines().get(0), said.lines().get(0).contains("connected"));
  }

  @Test
  public void anActiveOneThatIsNotAskedSaysSoOnce() throws Exception {
    coordinator.welcome();
    coordinator.ask("state");
    assertEquals(PluginMetrics.SERVING, state());
    // Neither of these asks anything.
    coordinator.welcome();
    coordinator.welcome();
    assertEquals(said.lines().toString(), 1, lines("asked nothing").size());
    assertTrue(namespace.releases.get() > 0);
    coordinator.welcome();
    coordinator.ask("state");
    assertEquals(said.lines().toString(), 2, lines("connected to").size());
  }

  @Test
  public void whoHangsUpAfterTheGreetingIsComplainedOfOnce() throws Exception {
    for (int i = 0; i < 3; i++) {
      coordinator.welcome();
      coordinator.hangUp();
    }
    coordinator.welcome();
    assertEquals(said.lines().toString(), 1, said.lines().size());
    assertTrue(said.lines().get(0), said.lines().get(0).contains("HDFS repairs by itself"));
  }

  @Test
  public void aRefusalIsSaidOnceWithItsReason() throws Exception {
    for (int i = 0; i < 2; i++) {
      coordinator.refuse("this coordinator serves BP-7, not BP-1");
    }
    coordinator.welcome();
    assertEquals(said.lines().toString(), 1, said.lines().size());
    assertTrue(said.lines().get(0), said.lines().get(0).contains("serves BP-7, not BP-1"));
  }

  @Test
  public void credentialsOfNoUseAreSaidOnceAlsoWhereNobodyListens() throws Exception {
    session.stop();
    coordinator.close();
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.COORDINATOR, coordinator.address());
    conf.set(NameNodeSettings.CREDENTIALS, folder.getRoot().getPath());
    NameNodeSession other = new NameNodeSession(NameNodeSettings.of(conf), namespace);
    try (Said here = new Said()) {
      other.start();
      Thread.sleep(2_500);
      assertEquals(PluginMetrics.WAITING, state());
      List<String> lines = here.lines();
      lines.removeIf(line -> !line.contains("tls.crt"));
      assertEquals(here.lines().toString(), 1, lines.size());
    } finally {
      other.stop();
    }
  }

  /** Lets whoever comes prove who it is, as often as it comes. */
  private static Thread meet(SSLServerSocket listener, AtomicInteger met) {
    Thread meeting = new Thread(() -> {
      while (!listener.isClosed()) {
        try (SSLSocket socket = (SSLSocket) listener.accept()) {
          met.incrementAndGet();
          socket.startHandshake();
          socket.getInputStream().read();
        } catch (IOException e) {
          // It hangs up; or the test has ended, which the condition says.
          continue;
        }
      }
    });
    meeting.setDaemon(true);
    return meeting;
  }

  @Test
  public void aCoordinatorWhoseCertificateHasEndedIsSaidOnceAndHdfsGoesOn() throws Exception {
    session.stop();
    Authority authority = new Authority(folder.getRoot().toPath());
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.CREDENTIALS, authority.issue("keeper/namenode", -1, 20).toString());
    AtomicInteger met = new AtomicInteger();
    try (SSLServerSocket listener =
            (SSLServerSocket) authority.server(authority.issue("coordinator/ended", -20, 10))
                .getServerSocketFactory().createServerSocket(0);
        Said here = new Said()) {
      meet(listener, met).start();
      conf.set(NameNodeSettings.COORDINATOR, "127.0.0.1:" + listener.getLocalPort());
      NameNodeSession other = new NameNodeSession(NameNodeSettings.of(conf), namespace);
      int before = namespace.releases.get();
      other.start();
      try {
        // The third comes when the second has been judged.
        MiniCluster.waitUntil("three attempts", () -> met.get() >= 3);
        List<String> lines = here.lines();
        lines.removeIf(line -> !line.contains("HDFS repairs by itself"));
        assertEquals(here.lines().toString(), 1, lines.size());
        assertEquals(PluginMetrics.WAITING, state());
        assertTrue(namespace.releases.get() >= before + 2);
      } finally {
        other.stop();
      }
    }
  }

  /** Asks whoever comes for its state, again and again, and counts who has come. */
  private static Thread interrogate(SSLServerSocket listener, AtomicInteger met) {
    Thread asking = new Thread(() -> {
      while (!listener.isClosed()) {
        try (SSLSocket socket = (SSLSocket) listener.accept();
            Frames frames =
                new Frames(socket.getInputStream(), socket.getOutputStream(), socket)) {
          frames.expect();
          frames.send(Message.empty().with("protocol", Frames.PROTOCOL));
          met.incrementAndGet();
          while (true) {
            frames.send(Message.empty().with("op", "state"));
            frames.expect();
            Thread.sleep(20);
          }
        } catch (IOException | InterruptedException e) {
          // It hangs up; or the test has ended.
          continue;
        }
      }
    });
    asking.setDaemon(true);
    return asking;
  }

  @Test
  public void aCoordinatorThatIsRevokedLosesTheConnectionThatItHas() throws Exception {
    session.stop();
    Authority authority = new Authority(folder.getRoot().toPath());
    Path own = authority.issue("keeper/namenode", -1, 20);
    Path other = authority.issue("coordinator/c", -1, 20);
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.CREDENTIALS, own.toString());
    AtomicInteger met = new AtomicInteger();
    try (SSLServerSocket listener = (SSLServerSocket) authority.server(other)
            .getServerSocketFactory().createServerSocket(0);
        Said here = new Said()) {
      interrogate(listener, met).start();
      conf.set(NameNodeSettings.COORDINATOR, "127.0.0.1:" + listener.getLocalPort());
      NameNodeSession judging =
          new NameNodeSession(NameNodeSettings.of(conf), namespace, 20_000, 50);
      judging.start();
      try {
        MiniCluster.waitUntil("a session", () -> state() == PluginMetrics.SERVING);
        // It is judged several times, and stays.
        Thread.sleep(500);
        assertEquals(1, met.get());
        int before = namespace.releases.get();
        authority.revoke(other, own);
        MiniCluster.waitUntil("its end", () -> namespace.releases.get() > before);
        List<String> lines = here.lines();
        lines.removeIf(line -> !line.contains("does not hold any more"));
        assertEquals(here.lines().toString(), 1, lines.size());
        assertEquals("nobody who is revoked is spoken to", 1, met.get());
      } finally {
        judging.stop();
      }
    }
  }

  @Test
  public void aRequestThatFailsIsSaidOnceForAsLongAsItFails() throws Exception {
    coordinator.welcome();
    for (int times = 1; times <= 2; times++) {
      namespace.broken = "groups";
      for (int i = 0; i < 3; i++) {
        String why = assertThrows(IOException.class, () -> coordinator.ask("groups")).getMessage();
        assertEquals("BlockManager.countNodes", why);
        // What goes well meanwhile changes nothing.
        coordinator.ask("nodes");
      }
      assertEquals(said.lines().toString(), times, lines("request groups failed").size());
      namespace.broken = "";
      coordinator.ask("groups");
    }
  }

  @Test
  public void anAnswerThatIsTooLongIsAnErrorAndTheSessionGoesOn() throws Exception {
    coordinator.welcome();
    String why = assertThrows(IOException.class, () -> coordinator.ask("long")).getMessage();
    assertTrue(why, why.contains("a frame of"));
    assertTrue(coordinator.ask("nodes").toString().contains("asked=nodes"));
  }
}
