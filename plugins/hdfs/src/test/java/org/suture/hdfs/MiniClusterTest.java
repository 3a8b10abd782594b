package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManagerTestUtil;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Both plugins inside a real NameNode and real DataNodes, asked as coordinator and agents ask. */
public class MiniClusterTest {
  private static final String POLICY = "RS-3-2-1024k";
  private static final int CELL = 1 << 20;
  private static final org.apache.hadoop.fs.Path FILE = new org.apache.hadoop.fs.Path("/ec/file");

  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  private final byte[] content = new byte[3 * CELL];
  private FakeCoordinator coordinator;
  private MiniDFSCluster cluster;
  private DistributedFileSystem files;

  @Before
  public void start() throws Exception {
    coordinator = new FakeCoordinator();
    Configuration conf = new Configuration();
    conf.set("dfs.namenode.plugins", NameNodePlugin.class.getName());
    conf.set("dfs.datanode.plugins", DataNodePlugin.class.getName());
    conf.set("dfs.block.placement.ec.classname", SuturePlacementPolicy.class.getName());
    conf.set(NameNodeSettings.COORDINATOR, coordinator.address());
    conf.set(DataNodePart.SOCKET, folder.getRoot() + "/dn_PORT.sock");
    conf.set("hadoop.tmp.dir", folder.getRoot().getPath());
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.newFolder().getPath());
    conf.setInt("dfs.namenode.redundancy.interval.seconds", 1);
    conf.setInt("dfs.heartbeat.interval", 1);
    cluster = new MiniDFSCluster.Builder(conf).numDataNodes(7).build();
    cluster.waitActive();
    files = cluster.getFileSystem();
    files.enableErasureCodingPolicy(POLICY);
    files.mkdirs(FILE.getParent());
    files.setErasureCodingPolicy(FILE.getParent(), POLICY);
    new Random(5).nextBytes(content);
    try (FSDataOutputStream out = files.create(FILE)) {
      out.write(content);
    }
    Message greeting = coordinator.welcome();
    assertEquals(Frames.PROTOCOL, greeting.text("protocol"));
    assertEquals(cluster.getNamesystem().getBlockPoolId(), greeting.text("pool"));
    waitUntil("active", () -> coordinator.ask("state").toString().contains("active=true"));
  }

  @After
  public void stop() throws Exception {
    if (cluster != null) {
      cluster.shutdown();
    }
    coordinator.close();
    Lease.end();
  }

  private static void waitUntil(String what, Callable<Boolean> condition) throws Exception {
    long end = System.nanoTime() + 30_000_000_000L;
    while (!condition.call()) {
      assertTrue(what, System.nanoTime() < end);
      Thread.sleep(50);
    }
  }

  /** The group at risk, as the coordinator knows it; null where there is none. */
  private Message known;

  private Message atRisk() throws IOException {
    Message answer = coordinator.ask("groups");
    for (Message group : answer.messages("groups")) {
      known = group;
    }
    return known;
  }

  private Map<Long, String> units() throws IOException {
    Map<Long, String> units = new HashMap<>();
    for (Message unit : known.messages("units")) {
      units.put(unit.number("index"), unit.text("node"));
    }
    return units;
  }

  /** Ends the DataNode of the first data block; the block's bytes are the file's first. */
  private void killFirst() throws Exception {
    String uuid = null;
    long group = DFSTestUtil.getAllBlocks(files, FILE).get(0).getBlock().getBlockId();
    for (DataNode node : cluster.getDataNodes()) {
      String pool = cluster.getNamesystem().getBlockPoolId();
      if (node.getFSDataset().getStoredBlock(pool, group) != null) {
        uuid = node.getDatanodeUuid();
      }
    }
    for (int i = 0; i < cluster.getDataNodes().size(); i++) {
      DataNode node = cluster.getDataNodes().get(i);
      if (node.getDatanodeUuid().equals(uuid)) {
        String name = node.getDatanodeId().getXferAddr();
        cluster.stopDataNode(i);
        BlockManagerTestUtil.noticeDeadDatanode(cluster.getNameNode(), name);
        return;
      }
    }
    throw new AssertionError("no DataNode has the first block");
  }

  /** A DataNode that has nothing of the group. */
  private DataNode free() throws IOException {
    for (DataNode node : cluster.getDataNodes()) {
      if (!units().containsValue(node.getDatanodeUuid())) {
        return node;
      }
    }
    throw new AssertionError("every DataNode has a block");
  }

  private Message claim(long repair, DataNode target) throws IOException {
    Message block = Message.empty().with("index", 0L).with("node", target.getDatanodeUuid());
    Message claim = Message.empty().with("repair", repair).with("group", known.number("group"))
        .with("stamp", known.number("stamp")).withAll("targets", List.of(block));
    return coordinator.ask(Message.empty().with("op", "claim").withAll("claims", List.of(claim)))
        .messages("claims").get(0);
  }

  private boolean isLive(DataNode on) throws IOException {
    return coordinator.ask(Message.empty().with("op", "confirm")
        .with("group", known.number("group")).with("stamp", known.number("stamp"))
        .with("index", 0L).with("node", on.getDatanodeUuid())).toString().contains("live=true");
  }

  /** An agent's connection to a DataNode's plugin. */
  private Frames agent(DataNode of) throws Exception {
    Path socket = folder.getRoot().toPath()
        .resolve("dn" + of.getXferPort() + ".sock");
    java.net.SocketAddress address = (java.net.SocketAddress)
        Class.forName("java.net.UnixDomainSocketAddress").getMethod("of", Path.class)
            .invoke(null, socket);
    SocketChannel channel = SocketChannel.open(address);
    Frames frames = new Frames(Channels.newInputStream(channel), Channels.newOutputStream(channel),
        channel);
    frames.send(Message.empty().with("op", "hello").with("protocol", Frames.PROTOCOL));
    assertEquals(of.getDatanodeUuid(), frames.expect().text("node"));
    return frames;
  }

  private Message about(String op) throws IOException {
    return Message.empty().with("op", op).with("pool", cluster.getNamesystem().getBlockPoolId())
        .with("block", known.number("group"));
  }

  private void begin(Frames agent, byte[] bytes) throws IOException {
    agent.send(about("begin").with("stamp", known.number("stamp")).with("bytes", (long) bytes.length));
    assertFalse(agent.expect().has("error"));
    agent.send(Message.empty().with("op", "data"), bytes, 0, bytes.length);
  }

  private Message commit(Frames agent, byte[] bytes) throws IOException {
    begin(agent, bytes);
    long crc = Integer.toUnsignedLong(Frames.crc32c(bytes, 0, bytes.length));
    agent.send(Message.empty().with("op", "finish").with("crc", crc));
    return agent.expect();
  }

  @Test
  public void aLeaseKeepsHdfsFromRepairingAndItsEndLetsItGoOn() throws Exception {
    coordinator.lease(60_000);
    killFirst();
    waitUntil("a group at risk", () -> atRisk() != null && !units().containsKey(0L));
    long vetoes = PluginMetrics.get().vetoes.value();
    waitUntil("vetoes", () -> PluginMetrics.get().vetoes.value() > vetoes + 2);
    assertFalse(units().containsKey(0L));
    coordinator.hangUp();
    coordinator.welcome();
    DFSTestUtil.waitForReplication(files, FILE, (short) 5, 30_000);
  }

  @Test
  public void aRebuiltBlockIsClaimedCommittedAndHdfsOwn() throws Exception {
    coordinator.lease(60_000);
    killFirst();
    waitUntil("a group at risk", () -> atRisk() != null && !units().containsKey(0L));
    DataNode target = free();
    Message granted = claim(77, target);
    assertFalse(granted.toString(), granted.has("why"));
    assertEquals("DISK", granted.messages("targets").get(0).text("type"));
    assertTrue(claim(78, target).text("why").contains("another repair"));
    byte[] block = Arrays.copyOf(content, CELL);
    try (Frames agent = agent(target)) {
      byte[] other = block.clone();
      other[9] ^= 1;
      // What is not finished, or has other bytes than were said, leaves nothing.
      begin(agent, other);
      agent.send(Message.empty().with("op", "finish").with("crc", 1L));
      assertEquals("failed", agent.expect().text("error"));
      assertFalse(isLive(target));
      assertEquals("named", commit(agent, block).text("published"));
      assertEquals("asked again", "named", commit(agent, block).text("published"));
      assertEquals("taken", commit(agent, other).text("published"));
      agent.send(about("read").with("from", 700L).with("count", 5000L));
      assertFalse(agent.expect().has("error"));
      assertArrayEquals(Arrays.copyOfRange(block, 700, 5700),
          Arrays.copyOf(agent.payload(), agent.payloadBytes()));
    }
    waitUntil("the DataNode's word", () -> isLive(target));
    coordinator.ask(Message.empty().with("op", "release").with("repair", 77L));
    waitUntil("at risk no more", () -> cluster.getNamesystem().getLowRedundancyECBlockGroups() == 0
        || coordinator.ask("groups").toString().contains("gone=[" + known.number("group")));
    assertArrayEquals(content, DFSTestUtil.readFileAsBytes(files, FILE));
  }

  @Test
  public void anAbandonedBlockIsGoneAndAReleasedClaimIsOfferedAgain() throws Exception {
    coordinator.lease(60_000);
    killFirst();
    waitUntil("a group at risk", () -> atRisk() != null && !units().containsKey(0L));
    DataNode target = free();
    assertFalse(claim(5, target).has("why"));
    try (Frames agent = agent(target)) {
      begin(agent, Arrays.copyOf(content, 1000));
    }
    waitUntil("its connection's end takes it away", () -> {
      try (Frames agent = agent(target)) {
        return "named".equals(commit(agent, Arrays.copyOf(content, CELL)).toString()
            .replaceAll(".*published=(\\w+).*", "$1"));
      }
    });
    waitUntil("live", () -> isLive(target));
  }

  @Test
  public void aCorruptReplicaIsReportedAndNotRead() throws Exception {
    coordinator.lease(60_000);
    long group = DFSTestUtil.getAllBlocks(files, FILE).get(0).getBlock().getBlockId();
    String pool = cluster.getNamesystem().getBlockPoolId();
    for (DataNode node : cluster.getDataNodes()) {
      if (node.getFSDataset().getStoredBlock(pool, group) == null) {
        continue;
      }
      java.io.File data = new java.io.File(node.getFSDataset().getBlockLocalPathInfo(
          new org.apache.hadoop.hdfs.protocol.ExtendedBlock(pool,
              node.getFSDataset().getStoredBlock(pool, group))).getBlockPath());
      try (java.io.RandomAccessFile out = new java.io.RandomAccessFile(data, "rw")) {
        out.seek(100);
        out.write(content[100] ^ 1);
      }
      try (Frames agent = agent(node)) {
        agent.send(Message.empty().with("op", "read").with("pool", pool).with("block", group)
            .with("from", 0L).with("count", 10L));
        assertEquals("corrupt", agent.expect().text("error"));
      }
      waitUntil("the NameNode knows", () -> atRisk() != null && !units().containsKey(0L));
      return;
    }
    throw new AssertionError("no DataNode has the first block");
  }
}
