package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DFSTestUtil;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.AddErasureCodingPolicyResponse;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManagerTestUtil;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.tools.DebugAdmin;
import org.apache.hadoop.io.erasurecode.ECSchema;
import org.apache.hadoop.util.ToolRunner;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** The codec in a real HDFS, without Suture: what HDFS writes, reads and rebuilds by itself. */
public class ButterflyClusterTest {
  private static final String POLICY = "BUTTERFLY-4-2-1024k";
  private static final int CELL = 1 << 20;
  private static final int K = 4;

  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  private final Map<Path, byte[]> written = new LinkedHashMap<>();
  private Configuration conf;
  private MiniDFSCluster cluster;
  private DistributedFileSystem files;

  @Before
  public void start() throws Exception {
    conf = new HdfsConfiguration();
    conf.set("hadoop.tmp.dir", folder.getRoot().getPath());
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.newFolder().getPath());
    conf.setInt("dfs.namenode.redundancy.interval.seconds", 1);
    conf.setInt("dfs.heartbeat.interval", 1);
    conf.setInt("dfs.datanode.ec.reconstruction.stripedread.buffer.size", CELL);
    conf.setLong("dfs.blocksize", 2 * CELL);
    cluster = new MiniDFSCluster.Builder(conf).numDataNodes(12).build();
    cluster.waitActive();
    files = cluster.getFileSystem();
    ErasureCodingPolicy policy = new ErasureCodingPolicy(new ECSchema("butterfly", K, 2), CELL);
    AddErasureCodingPolicyResponse[] added =
        files.addErasureCodingPolicies(new ErasureCodingPolicy[] {policy});
    assertTrue(added[0].toString(), added[0].isSucceed());
    assertEquals(POLICY, added[0].getPolicy().getName());
    files.enableErasureCodingPolicy(POLICY);
    files.mkdirs(new Path("/ec"));
    files.setErasureCodingPolicy(new Path("/ec"), POLICY);
    write("row", K * CELL);
    write("groups", 3 * 2 * K * CELL);
    // A last row of two whole cells and a part of one; one of a part of a cell; nothing else.
    write("partial", K * CELL + 2 * CELL + 70_001);
    write("short", K * CELL + 70_001);
    write("tiny", 5);
  }

  @After
  public void stop() {
    if (cluster != null) {
      cluster.shutdown();
    }
  }

  private void write(String name, int bytes) throws IOException {
    Path path = new Path("/ec/" + name);
    written.put(path, ButterflyTest.made(0, bytes));
    try (FSDataOutputStream out = files.create(path)) {
      out.write(written.get(path));
    }
  }

  private ExtendedBlock block(Path file, int index) throws IOException {
    ExtendedBlock block = new ExtendedBlock(
        DFSTestUtil.getAllBlocks(files, file).get(0).getBlock());
    block.setBlockId(block.getBlockId() + index);
    return block;
  }

  private DataNode holder(ExtendedBlock block) throws IOException {
    for (DataNode node : cluster.getDataNodes()) {
      if (node.getFSDataset().getStoredBlock(block.getBlockPoolId(), block.getBlockId()) != null) {
        return node;
      }
    }
    throw new AssertionError("no DataNode has " + block);
  }

  private byte[] stored(ExtendedBlock block) throws IOException {
    DataNode node = holder(block);
    ExtendedBlock found = new ExtendedBlock(block.getBlockPoolId(),
        node.getFSDataset().getStoredBlock(block.getBlockPoolId(), block.getBlockId()));
    return Files.readAllBytes(
        Paths.get(node.getFSDataset().getBlockLocalPathInfo(found).getBlockPath()));
  }

  private void kill(DataNode node) throws Exception {
    String name = node.getDatanodeId().getXferAddr();
    cluster.stopDataNode(name);
    BlockManagerTestUtil.noticeDeadDatanode(cluster.getNameNode(), name);
  }

  /** Waits until every group of a file has all its blocks again. */
  private void waitUntilWhole(Path file) throws Exception {
    long end = System.nanoTime() + 180_000_000_000L;
    for (LocatedBlock group : DFSTestUtil.getAllBlocks(files, file)) {
      int data = (int) Math.min(K, (group.getBlockSize() - 1) / CELL + 1);
      int found;
      do {
        assertTrue(file + " is not rebuilt", System.nanoTime() < end);
        Thread.sleep(100);
        found = (int) DFSTestUtil.getAllBlocks(files, file).stream()
            .filter(now -> now.getStartOffset() == group.getStartOffset())
            .mapToLong(now -> now.getLocations().length).sum();
      } while (found != data + 2);
    }
  }

  /** Reads by seek and read, and in pieces at odd places. */
  private void reads(Path file) throws IOException {
    byte[] expected = written.get(file);
    assertArrayEquals(file.toString(), expected, DFSTestUtil.readFileAsBytes(files, file));
    try (FSDataInputStream in = files.open(file)) {
      for (int from = 1; from < expected.length; from += 777_777) {
        byte[] piece = new byte[Math.min(1_500_000, expected.length - from)];
        in.readFully(from, piece);
        assertArrayEquals(file + " from " + from,
            Arrays.copyOfRange(expected, from, from + piece.length), piece);
      }
    }
  }

  private void verify() throws Exception {
    for (Path file : written.keySet()) {
      assertEquals("verifyEC " + file, 0, ToolRunner.run(conf, new DebugAdmin(conf),
          new String[] {"verifyEC", "-file", file.toString()}));
    }
  }

  @Test
  public void whatIsStoredIsWhatSutureEncodes() throws Exception {
    Path row = new Path("/ec/row");
    for (int j = 0; j < K; j++) {
      assertArrayEquals(ButterflyTest.made(j * CELL, CELL), stored(block(row, j)));
    }
    assertEquals(ButterflyTest.GOLDEN_H, ButterflyTest.crc(stored(block(row, K))));
    assertEquals(ButterflyTest.GOLDEN_B, ButterflyTest.crc(stored(block(row, K + 1))));
    for (Path file : written.keySet()) {
      reads(file);
    }
    verify();
  }

  @Test
  public void filesAreReadWithABlockMissingAndHdfsRebuildsIt() throws Exception {
    isRebuilt("groups", 0);
    // Of the last row: a part of a cell, what is coded over whole ones, and copies.
    isRebuilt("partial", 2);
    isRebuilt("partial", K + 1);
    isRebuilt("short", 0);
    isRebuilt("short", K + 1);
    verify();
  }

  private void isRebuilt(String name, int index) throws Exception {
    Path file = new Path("/ec/" + name);
    byte[] before = stored(block(file, index));
    kill(holder(block(file, index)));
    for (Path each : written.keySet()) {
      reads(each);
      waitUntilWhole(each);
    }
    assertArrayEquals(file + ", block " + index, before, stored(block(file, index)));
  }

  @Test
  public void twoMissingBlocksAreDecodedOverWholeRowsAndPiecesAreRefused() throws Exception {
    Path file = new Path("/ec/groups");
    DataNode first = holder(block(file, 1));
    DataNode second = holder(block(file, K));
    for (DataNode node : new DataNode[] {first, second}) {
      cluster.stopDataNode(node.getDatanodeId().getXferAddr());
    }
    assertArrayEquals(written.get(file), DFSTestUtil.readFileAsBytes(files, file));
    try (FSDataInputStream in = files.open(file)) {
      IOException refused = assertThrows(IOException.class,
          () -> in.readFully(CELL + 1, new byte[1000]));
      assertTrue(refused.getMessage(), refused.getMessage().contains("two of the blocks"));
      // As many bytes as a cell has, at another place.
      assertThrows(IOException.class, () -> in.readFully(100, new byte[(2 * K - 1) * CELL]));
    }
    for (DataNode node : new DataNode[] {first, second}) {
      BlockManagerTestUtil.noticeDeadDatanode(cluster.getNameNode(),
          node.getDatanodeId().getXferAddr());
    }
    for (Path each : written.keySet()) {
      waitUntilWhole(each);
      reads(each);
    }
    verify();
  }
}
