package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.ArrayList;
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
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManagerTestUtil;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.rules.TemporaryFolder;

/**
 * A real NameNode and real DataNodes in this process, with both plugins and a file of one block
 * group, for tests that ask as coordinator and agents do.
 */
public abstract class MiniCluster {
  static final String POLICY = "RS-3-2-1024k";
  static final int CELL = 1 << 20;
  static final org.apache.hadoop.fs.Path FILE = new org.apache.hadoop.fs.Path("/ec/file");

  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  final byte[] content = new byte[3 * CELL];
  final Configuration conf = new Configuration();
  FakeCoordinator coordinator;
  MiniDFSCluster cluster;
  DistributedFileSystem files;

  /** What else is configured. */
  void configure() throws IOException {
  }

  /** The rack of each DataNode; null: seven of them, wherever. */
  String[] racks() {
    return null;
  }

  @Before
  public void start() throws Exception {
    coordinator = new FakeCoordinator();
    conf.set("dfs.namenode.plugins", NameNodePlugin.class.getName());
    conf.set("dfs.datanode.plugins", DataNodePlugin.class.getName());
    conf.set("dfs.block.placement.ec.classname", SuturePlacementPolicy.class.getName());
    conf.set(NameNodeSettings.COORDINATOR, coordinator.address());
    conf.set(DataNodePart.SOCKET, folder.getRoot() + "/dn_PORT.sock");
    conf.set("hadoop.tmp.dir", folder.getRoot().getPath());
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.newFolder().getPath());
    conf.setInt("dfs.namenode.redundancy.interval.seconds", 1);
    conf.setInt("dfs.heartbeat.interval", 1);
    conf.set("dfs.namenode.decommission.interval", "1s");
    configure();
    String[] racks = racks();
    cluster = new MiniDFSCluster.Builder(conf).numDataNodes(racks == null ? 7 : racks.length)
        .racks(racks).build();
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

  static void waitUntil(String what, Callable<Boolean> condition) throws Exception {
    long end = System.nanoTime() + 30_000_000_000L;
    while (!condition.call()) {
      assertTrue(what, System.nanoTime() < end);
      Thread.sleep(50);
    }
  }

  /** The group at risk, as the coordinator knows it; null where there is none. */
  Message known;

  Message atRisk() throws IOException {
    Message answer = coordinator.ask("groups");
    for (Message group : answer.messages("groups")) {
      known = group;
    }
    return known;
  }

  Map<Long, String> units() throws IOException {
    Map<Long, String> units = new HashMap<>();
    for (Message unit : known.messages("units")) {
      units.put(unit.number("index"), unit.text("node"));
    }
    return units;
  }

  /** What the blocks that are there are said to be. */
  Map<Long, String> states() throws IOException {
    Map<Long, String> states = new HashMap<>();
    for (Message unit : known.messages("units")) {
      states.put(unit.number("index"), unit.text("state"));
    }
    return states;
  }

  String pool() {
    return cluster.getNamesystem().getBlockPoolId();
  }

  long group() throws IOException {
    return group(FILE);
  }

  /** The only group of a file. */
  long group(org.apache.hadoop.fs.Path file) throws IOException {
    return DFSTestUtil.getAllBlocks(files, file).get(0).getBlock().getBlockId();
  }

  /** The DataNode that has a block of the group. */
  DataNode holder(int index) throws IOException {
    return holder(FILE, index);
  }

  DataNode holder(org.apache.hadoop.fs.Path file, int index) throws IOException {
    for (DataNode node : cluster.getDataNodes()) {
      if (node.getFSDataset().getStoredBlock(pool(), group(file) + index) != null) {
        return node;
      }
    }
    throw new AssertionError("no DataNode has block " + index);
  }

  DatanodeDescriptor descriptor(DataNode of) {
    return cluster.getNamesystem().getBlockManager().getDatanodeManager()
        .getDatanode(of.getDatanodeUuid());
  }

  /** Ends a DataNode, and the NameNode notices. */
  void kill(DataNode node) throws Exception {
    String name = node.getDatanodeId().getXferAddr();
    cluster.stopDataNode(name);
    BlockManagerTestUtil.noticeDeadDatanode(cluster.getNameNode(), name);
  }

  /** Ends the DataNode of the first data block; the block's bytes are the file's first. */
  void killFirst() throws Exception {
    kill(holder(0));
  }

  /** As {@link #killFirst}, while HDFS leaves it to Suture; the group is known to lack it then. */
  void loseFirst() throws Exception {
    coordinator.lease(60_000);
    killFirst();
    waitUntil("a group at risk", () -> atRisk() != null && !units().containsKey(0L));
  }

  /** A DataNode that has nothing of the group. */
  DataNode free() throws IOException {
    return allFree().get(0);
  }

  List<DataNode> allFree() throws IOException {
    List<DataNode> free = new ArrayList<>(cluster.getDataNodes());
    Map<Long, String> units = units();
    free.removeIf(node -> units.containsValue(node.getDatanodeUuid()));
    return free;
  }

  /** Claims the first block for a DataNode. */
  Message claim(long repair, DataNode target) throws IOException {
    return claim(repair, known.number("stamp"), Map.of(0L, target));
  }

  Message claim(long repair, long stamp, Map<Long, DataNode> targets) throws IOException {
    List<Message> blocks = new ArrayList<>();
    targets.forEach((index, target) -> blocks.add(
        Message.empty().with("index", index).with("node", target.getDatanodeUuid())));
    Message claim = Message.empty().with("repair", repair).with("group", known.number("group"))
        .with("stamp", stamp).withAll("targets", blocks);
    return coordinator.ask(Message.empty().with("op", "claim").withAll("claims", List.of(claim)))
        .messages("claims").get(0);
  }

  void release(long repair) throws IOException {
    coordinator.ask(Message.empty().with("op", "release").with("repair", repair));
  }

  /** Whether the NameNode counts something of the group as being built. */
  boolean isPending() throws IOException {
    BlockManager blocks = cluster.getNamesystem().getBlockManager();
    return SutureBlocks.isPending(blocks, blocks.getStoredBlock(new Block(group())));
  }

  boolean isLive(DataNode on) throws IOException {
    return coordinator.ask(Message.empty().with("op", "confirm")
        .with("group", known.number("group")).with("stamp", known.number("stamp"))
        .with("index", 0L).with("node", on.getDatanodeUuid())).toString().contains("live=true");
  }

  /** An agent's connection to a DataNode's plugin. */
  Frames agent(DataNode of) throws Exception {
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

  /** A question about the first block. */
  Message about(String op) throws IOException {
    return Message.empty().with("op", op).with("pool", pool()).with("block", group());
  }

  void begin(Frames agent, byte[] bytes) throws IOException {
    begin(agent, known.number("stamp"), bytes);
  }

  void begin(Frames agent, long stamp, byte[] bytes) throws IOException {
    agent.send(about("begin").with("stamp", stamp).with("bytes", (long) bytes.length));
    Message begun = agent.expect();
    assertFalse(begun.toString(), begun.has("error"));
    agent.send(Message.empty().with("op", "data"), bytes, 0, bytes.length);
  }

  Message finish(Frames agent, byte[] bytes) throws IOException {
    long crc = Integer.toUnsignedLong(Frames.crc32c(bytes, 0, bytes.length));
    agent.send(Message.empty().with("op", "finish").with("crc", crc));
    return agent.expect();
  }

  Message commit(Frames agent, byte[] bytes) throws IOException {
    begin(agent, bytes);
    return finish(agent, bytes);
  }
}
