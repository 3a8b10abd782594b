package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.impl.FsVolumeImpl;
import org.junit.Test;

/** Both plugins inside a real NameNode and real DataNodes, asked as coordinator and agents ask. */
public class MiniClusterTest extends MiniCluster {
  @Test
  public void aLeaseKeepsHdfsFromRepairingAndItsEndLetsItGoOn() throws Exception {
    loseFirst();
    long vetoes = PluginMetrics.get().vetoes.value();
    waitUntil("vetoes", () -> PluginMetrics.get().vetoes.value() > vetoes + 2);
    assertFalse(units().containsKey(0L));
    coordinator.hangUp();
    coordinator.welcome();
    DFSTestUtil.waitForReplication(files, FILE, (short) 5, 30_000);
  }

  @Test
  public void aLeaseThatNobodyProlongsEndsByItselfAndHdfsGoesOn() throws Exception {
    loseFirst();
    // From now on the coordinator hangs: its connection stays, and it asks nothing.
    coordinator.lease(2_000);
    DFSTestUtil.waitForReplication(files, FILE, (short) 5, 25_000);
    assertFalse(Lease.isHeld());
    assertTrue("it is the same connection", coordinator.ask("state").toString().contains("active"));
  }

  @Test
  public void aFileThatOnlyASnapshotKeepsIsLeftToSutureToo() throws Exception {
    files.allowSnapshot(FILE.getParent());
    Path kept = new Path(files.createSnapshot(FILE.getParent(), "s"), FILE.getName());
    DataNode first = holder(0);
    assertTrue(files.delete(FILE, false));
    coordinator.lease(60_000);
    kill(first);
    waitUntil("a group at risk", () -> atRisk() != null && !units().containsKey(0L));
    assertEquals(FILE.toString(), known.text("path"));
    long vetoes = PluginMetrics.get().vetoes.value();
    waitUntil("vetoes", () -> {
      coordinator.lease(60_000);
      return PluginMetrics.get().vetoes.value() > vetoes + 2;
    });
    atRisk();
    assertFalse(units().containsKey(0L));
    // Without Suture HDFS rebuilds it.
    coordinator.hangUp();
    coordinator.welcome();
    waitUntil("all five blocks of it",
        () -> files.getFileBlockLocations(kept, 0, content.length)[0].getHosts().length == 5);
    assertArrayEquals(content, DFSTestUtil.readFileAsBytes(files, kept));
  }

  @Test
  public void aFileOfAnotherCodecIsHdfsOwnToRepairWhateverLeaseThereIs() throws Exception {
    String policy = "XOR-2-1-1024k";
    Path other = new Path("/xor/file");
    files.enableErasureCodingPolicy(policy);
    files.mkdirs(other.getParent());
    files.setErasureCodingPolicy(other.getParent(), policy);
    byte[] bytes = Arrays.copyOf(content, 2 * CELL);
    try (FSDataOutputStream out = files.create(other)) {
      out.write(bytes);
    }
    coordinator.lease(60_000);
    kill(holder(other, 0));
    waitUntil("all three blocks of it", () -> {
      coordinator.lease(60_000);
      return files.getFileBlockLocations(other, 0, bytes.length)[0].getHosts().length == 3;
    });
    assertTrue(Lease.isHeld());
    assertArrayEquals(bytes, DFSTestUtil.readFileAsBytes(files, other));
    // The coordinator was told of the other group at most.
    Message told = atRisk();
    assertTrue(String.valueOf(told), told == null || told.number("group") == group());
  }

  @Test
  public void aRebuiltBlockIsClaimedCommittedAndHdfsOwn() throws Exception {
    loseFirst();
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
    release(77);
    waitUntil("at risk no more", () -> cluster.getNamesystem().getLowRedundancyECBlockGroups() == 0
        || coordinator.ask("groups").toString().contains("gone=[" + known.number("group")));
    assertArrayEquals(content, DFSTestUtil.readFileAsBytes(files, FILE));
  }

  @Test
  public void anAbandonedBlockIsGoneAndAReleasedClaimIsOfferedAgain() throws Exception {
    loseFirst();
    DataNode target = free();
    assertFalse(claim(5, target).has("why"));
    try (Frames agent = agent(target)) {
      begin(agent, Arrays.copyOf(content, 1000));
    }
    release(5);
    assertFalse(isPending());
    assertFalse(claim(6, target).has("why"));
    byte[] block = Arrays.copyOf(content, CELL);
    waitUntil("its connection's end takes it away", () -> {
      try (Frames agent = agent(target)) {
        agent.send(about("begin").with("stamp", known.number("stamp")).with("bytes", (long) CELL));
        if (agent.expect().has("error")) {
          return false;
        }
        agent.send(Message.empty().with("op", "data"), block, 0, CELL);
        return finish(agent, block).text("published").equals("named");
      }
    });
    waitUntil("live", () -> isLive(target));
    assertEquals("room that was set aside", 0, reservedBytes(target));
  }

  /** What the volumes of a DataNode have set aside for blocks that are being written. */
  private static long reservedBytes(DataNode node) throws Exception {
    long bytes = 0;
    try (FsDatasetSpi.FsVolumeReferences volumes = node.getFSDataset().getFsVolumeReferences()) {
      for (FsVolumeSpi volume : volumes) {
        bytes += ((FsVolumeImpl) volume).getReservedForReplicas();
      }
    }
    return bytes;
  }

  @Test
  public void aCorruptReplicaIsReportedAndNotRead() throws Exception {
    coordinator.lease(60_000);
    DataNode node = holder(0);
    java.io.File data = dataFile(node);
    try (java.io.RandomAccessFile out = new java.io.RandomAccessFile(data, "rw")) {
      out.seek(100);
      out.write(content[100] ^ 1);
    }
    assertEquals("corrupt", readError(node));
    waitUntil("the NameNode knows", () -> atRisk() != null && !units().containsKey(0L));
  }

  /** Where a DataNode keeps the bytes of the first block. */
  private java.io.File dataFile(DataNode node) throws Exception {
    ExtendedBlock block =
        new ExtendedBlock(pool(), node.getFSDataset().getStoredBlock(pool(), group()));
    return new java.io.File(node.getFSDataset().getBlockLocalPathInfo(block).getBlockPath());
  }

  /** What an agent is told that reads the first block. */
  private String readError(DataNode node) throws Exception {
    try (Frames agent = agent(node)) {
      agent.send(about("read").with("from", 0L).with("count", 10L));
      return agent.expect().text("error");
    }
  }

  @Test
  public void aReplicaThatTheDiskCannotReadIsReportedToo() throws Exception {
    coordinator.lease(60_000);
    DataNode node = holder(0);
    java.nio.file.Path data = dataFile(node).toPath();
    java.nio.file.Files.delete(data);
    assertEquals("missing", readError(node));
    // Nothing is mapped where its bytes should be, which reads as EIO.
    java.nio.file.Files.createSymbolicLink(data, java.nio.file.Paths.get("/proc/self/mem"));
    assertEquals("unreadable", readError(node));
    waitUntil("the NameNode knows", () -> atRisk() != null && !units().containsKey(0L));
  }
}
