package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.junit.Test;

/** A cluster that names its hosts, and has checksums of another kind than HDFS by default. */
public class ConfiguredClusterTest extends MiniCluster {
  @Override
  void configure() throws IOException {
    Path hosts = folder.newFile("hosts").toPath();
    Files.writeString(hosts, "127.0.0.1\n192.0.2.77\n");
    conf.set("dfs.hosts", hosts.toString());
    conf.set("dfs.checksum.type", "CRC32");
    conf.setInt("dfs.bytes-per-checksum", 4096);
  }

  @Test
  public void aHostThatHasNeverRegisteredIsNoNode() throws Exception {
    int reported = cluster.getNamesystem().getBlockManager().getDatanodeManager()
        .getDatanodeListForReport(DatanodeReportType.ALL).size();
    assertEquals("HDFS has it, without a name", 8, reported);
    List<Message> nodes = coordinator.ask("nodes").messages("nodes");
    assertEquals(7, nodes.size());
    for (Message node : nodes) {
      assertFalse(node.toString(), node.text("node").isEmpty());
    }
  }

  @Test
  public void aRebuiltBlockHasChecksumsOfTheClustersKindAndItsFileTheOneOfBefore()
      throws Exception {
    FileChecksum before = files.getFileChecksum(FILE);
    loseFirst();
    DataNode target = free();
    assertFalse(claim(7, target).has("why"));
    try (Frames agent = agent(target)) {
      assertEquals("named", commit(agent, Arrays.copyOf(content, CELL)).text("published"));
    }
    waitUntil("live", () -> isLive(target));
    release(7);
    assertEquals(before, files.getFileChecksum(FILE));
  }
}
