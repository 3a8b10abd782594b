package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;

import java.util.Collections;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.junit.Test;

/** Groups that lack nothing but a rack are HDFS's to mend, whatever lease there is. */
public class PlacementClusterTest extends MiniCluster {
  private static final String NEW_RACK = "/r2";

  /** As many as a group has blocks, so a new one is the only place for another. */
  @Override
  String[] racks() {
    return Collections.nCopies(5, "/r1").toArray(new String[0]);
  }

  private boolean hasBlock(DataNode node) throws Exception {
    for (int index = 0; index < 5; index++) {
      if (node.getFSDataset().getStoredBlock(pool(), group() + index) != null) {
        return true;
      }
    }
    return false;
  }

  @Test
  public void hdfsSpreadsAGroupOverANewRackWhileSutureHasTheLease() throws Exception {
    coordinator.lease(60_000);
    cluster.startDataNodes(conf, 1, true, null, new String[] {NEW_RACK});
    cluster.waitActive();
    DataNode added = cluster.getDataNodes().get(5);
    assertEquals(NEW_RACK, descriptor(added).getNetworkLocation());
    long vetoes = PluginMetrics.get().vetoes.value();
    waitUntil("a block on the new rack", () -> {
      coordinator.lease(60_000);
      // It is nothing for the coordinator.
      assertNull(atRisk());
      return hasBlock(added);
    });
    assertEquals(vetoes, PluginMetrics.get().vetoes.value());
  }
}
