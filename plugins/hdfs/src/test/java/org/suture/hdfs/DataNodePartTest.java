package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.mockito.Mockito;

/** The socket of a DataNode's plugin and its connections, without a DataNode's data. */
public class DataNodePartTest {
  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  private final List<DataNodePart> started = new ArrayList<>();
  private final Configuration conf = new Configuration(false);
  private Path socket;

  @Before
  public void share() {
    DefaultMetricsSystem.setMiniClusterMode(true);
    socket = folder.getRoot().toPath().resolve("dn.sock");
  }

  @After
  public void stop() {
    started.forEach(DataNodePart::stop);
  }

  private DataNode start(DataNodePart part) throws Exception {
    conf.set(DataNodePart.SOCKET, socket.toString());
    DataNode node = Mockito.mock(DataNode.class);
    Mockito.when(node.getConf()).thenReturn(conf);
    part.start(node);
    started.add(part);
    return node;
  }

  private String refusal() {
    return assertThrows(IOException.class, () -> start(new DataNodePart())).getMessage();
  }

  static SocketChannel connect(Path socket) throws Exception {
    return SocketChannel.open((SocketAddress) Class.forName("java.net.UnixDomainSocketAddress")
        .getMethod("of", Path.class).invoke(null, socket));
  }

  /** Says hello; a DataNode without data has nothing to say for itself. */
  private static void isServed(SocketChannel channel) throws Exception {
    Frames frames = ChannelSteps.frames(channel);
    frames.send(Message.empty().with("op", "hello").with("protocol", Frames.PROTOCOL));
    assertEquals("failed", frames.expect().text("error"));
  }

  @Test
  public void aFileThatHasTheNameOfTheSocketStays() throws Exception {
    Files.writeString(socket, "somebody's");
    assertTrue(refusal(), refusal().contains("no socket"));
    assertEquals("somebody's", Files.readString(socket));
  }

  @Test
  public void theSocketOfAnotherDataNodeStaysAndThatOfADeadOneIsTaken() throws Exception {
    DataNodePart first = new DataNodePart();
    start(first);
    assertTrue(refusal(), refusal().contains("_PORT"));
    try (SocketChannel channel = connect(socket)) {
      isServed(channel);
    }
    first.stop();
    assertFalse(Files.exists(socket));
    // What a daemon leaves that was killed.
    new UnixSockets().listen(socket).close();
    assertTrue(Files.exists(socket));
    start(new DataNodePart());
    try (SocketChannel channel = connect(socket)) {
      isServed(channel);
    }
  }

  @Test
  public void aUserWhoIsNotTheOneThatIsNamedIsRefused() throws Exception {
    conf.set(DataNodePart.USER, "somebody-else");
    try (Said said = new Said()) {
      start(new DataNodePart());
      try (SocketChannel channel = connect(socket)) {
        Message refused = ChannelSteps.frames(channel).expect();
        assertEquals("refused", refused.text("error"));
        assertTrue(refused.toString(), refused.text("why").contains(DataNodePart.USER));
      }
      assertEquals(said.lines().toString(), 1,
          said.lines().stream().filter(line -> line.contains("is refused at")).count());
    }
  }

  @Test
  public void whatThisHadoopLacksEndsTheConnectionAndIsSaidOnce() throws Exception {
    try (Said said = new Said()) {
      DataNode node = start(new DataNodePart());
      Mockito.when(node.getFSDataset()).thenThrow(new NoSuchMethodError("getFSDataset"));
      for (int i = 0; i < 3; i++) {
        try (SocketChannel channel = connect(socket)) {
          assertThrows(IOException.class, () -> isServed(channel));
        }
        // Its end shows after all that is said of it.
        MiniCluster.waitUntil("its place is free",
            () -> PluginMetrics.get().state.value() == PluginMetrics.WAITING);
      }
      assertEquals(said.lines().toString(), 1,
          said.lines().stream().filter(line -> line.contains("failed in this DataNode")).count());
    }
  }

  @Test
  public void aConnectionWithoutAThreadGivesItsPlaceBack() throws Exception {
    AtomicInteger asked = new AtomicInteger();
    try (Said said = new Said()) {
      start(new DataNodePart(work -> {
        if (asked.incrementAndGet() <= 2 * DataNodePart.CONNECTIONS_MAX) {
          throw new OutOfMemoryError("unable to create native thread");
        }
        return new Thread(work);
      }));
      for (int i = 0; i < 2 * DataNodePart.CONNECTIONS_MAX; i++) {
        try (SocketChannel channel = connect(socket)) {
          assertEquals(-1, channel.read(java.nio.ByteBuffer.allocate(1)));
        }
      }
      try (SocketChannel channel = connect(socket)) {
        isServed(channel);
      }
      long complaints = said.lines().stream().filter(line -> line.contains("native thread")).count();
      assertEquals(said.lines().toString(), 1, complaints);
    }
  }

  @Test
  public void noMoreConnectionsAreServedThanThereArePlaces() throws Exception {
    start(new DataNodePart());
    List<SocketChannel> open = new ArrayList<>();
    for (int i = 0; i < DataNodePart.CONNECTIONS_MAX; i++) {
      open.add(connect(socket));
      isServed(open.get(i));
    }
    try (SocketChannel beyond = connect(socket)) {
      assertEquals(-1, beyond.read(java.nio.ByteBuffer.allocate(1)));
    }
    open.get(0).close();
    long end = System.nanoTime() + 10_000_000_000L;
    while (true) {
      try (SocketChannel again = connect(socket)) {
        isServed(again);
        break;
      } catch (IOException e) {
        // Its place is not free yet.
        assertTrue(e.toString(), System.nanoTime() < end);
        Thread.sleep(20);
      }
    }
    for (SocketChannel channel : open) {
      channel.close();
    }
  }
}
