package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
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
    session = new NameNodeSession(NameNodeSettings.of(conf), namespace, SILENCE_MILLIS);
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

  @Test
  public void anAnswerThatIsTooLongIsAnErrorAndTheSessionGoesOn() throws Exception {
    coordinator.welcome();
    String why = assertThrows(IOException.class, () -> coordinator.ask("long")).getMessage();
    assertTrue(why, why.contains("a frame of"));
    assertTrue(coordinator.ask("nodes").toString().contains("asked=nodes"));
  }
}
