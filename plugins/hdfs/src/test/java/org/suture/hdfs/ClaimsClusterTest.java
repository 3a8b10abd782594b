package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeAdminManager;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.protocol.NamenodeProtocols;
import org.junit.Test;

/**
 * What becomes of claims while they last: prolonged, refused, and what a NameNode does meanwhile.
 */
public class ClaimsClusterTest extends MiniCluster {
  private static String storage(Message granted) throws IOException {
    assertFalse(granted.toString(), granted.has("why"));
    return granted.messages("targets").get(0).text("storage");
  }

  private DatanodeAdminManager admin() {
    return cluster.getNamesystem().getBlockManager().getDatanodeManager()
        .getDatanodeAdminManager();
  }

  /** Does something to a DataNode that an administrator would have done. */
  private void administer(Runnable what) {
    cluster.getNamesystem().writeLock();
    try {
      what.run();
    } finally {
      cluster.getNamesystem().writeUnlock();
    }
  }

  @Test
  public void aClaimGoesOnWhereverThePolicyWouldPutTheBlockToday() throws Exception {
    loseFirst();
    DataNode target = allFree().get(0);
    DataNode other = allFree().get(1);
    String granted = storage(claim(7, target));
    DatanodeDescriptor node = descriptor(target);
    node.startDecommission();
    assertTrue(claim(8, target).text("why").contains("placement policy"));
    assertEquals(granted, storage(claim(7, target)));
    assertTrue(isPending());
    node.stopDecommission();
    assertTrue(claim(8, other).text("why").contains("another repair"));
    // The same repair elsewhere is another claim, in place of the first.
    assertFalse(granted.equals(storage(claim(7, other))));
    release(7);
    assertFalse(isPending());
  }

  @Test
  public void aRefusalEndsWhatWasGranted() throws Exception {
    loseFirst();
    DataNode target = free();
    storage(claim(7, target));
    Message refused = claim(7, known.number("stamp") + 1, Map.of(0L, target));
    assertTrue(refused.text("why"), refused.text("why").contains("another generation stamp"));
    assertFalse(isPending());
    // Nobody has it any more.
    storage(claim(8, target));
    release(7);
    assertTrue(isPending());
    release(8);
    assertFalse(isPending());
  }

  @Test
  public void aClaimGoesOnWhenSomeOfItsBlocksHaveArrived() throws Exception {
    loseFirst();
    kill(holder(4));
    waitUntil("two lost", () -> atRisk() != null && !units().containsKey(4L));
    Map<Long, DataNode> targets = Map.of(0L, allFree().get(0), 4L, allFree().get(1));
    long stamp = known.number("stamp");
    assertFalse(claim(7, stamp, targets).has("why"));
    try (Frames agent = agent(targets.get(0L))) {
      commit(agent, Arrays.copyOf(content, CELL));
    }
    waitUntil("the first", () -> isLive(targets.get(0L)));
    Message again = claim(7, stamp, targets);
    assertFalse(again.toString(), again.has("why"));
    assertEquals(2, again.messages("targets").size());
    assertTrue(isPending());
    // Nothing is counted that has arrived: with the other one there is nothing left to wait for.
    assertFalse(claim(7, stamp, Map.of(4L, targets.get(4L))).has("why"));
    release(7);
    assertFalse(isPending());
  }

  @Test
  public void safeModeTakesClaimsBackAndTheyAreGrantedAgainAfterIt() throws Exception {
    loseFirst();
    DataNode target = free();
    storage(claim(7, target));
    NamenodeProtocols namenode = cluster.getNameNodeRpc();
    assertTrue(namenode.setSafeMode(SafeModeAction.SAFEMODE_ENTER, false));
    String why = assertThrows(IOException.class, () -> coordinator.ask("groups")).getMessage();
    assertTrue(why, why.contains("safe mode"));
    assertFalse(Lease.isHeld());
    assertEquals(PluginMetrics.WAITING, PluginMetrics.get().state.value());
    assertFalse(isPending());
    // HDFS would be as quick as the coordinator.
    Lease.renew(60_000, Set.of());
    namenode.setSafeMode(SafeModeAction.SAFEMODE_LEAVE, false);
    coordinator.lease(60_000);
    known = null;
    waitUntil("a group at risk", () -> atRisk() != null);
    storage(claim(8, target));
  }

  @Test
  public void aBlockOfAnotherStampIsNoneOfTheGroup() throws Exception {
    loseFirst();
    DataNode target = free();
    byte[] block = Arrays.copyOf(content, CELL);
    try (Frames agent = agent(target)) {
      begin(agent, known.number("stamp") + 7, block);
      // A DataNode cannot tell; the NameNode can.
      assertEquals("named", finish(agent, block).text("published"));
      waitUntil("the NameNode's word", () -> isCorruptOn(target));
      assertFalse(isLive(target));
      // There it has to go before another one comes.
      assertEquals("taken", commit(agent, block).text("published"));
      assertFalse(isLive(target));
    }
  }

  private boolean isCorruptOn(DataNode node) throws IOException {
    var corrupt = cluster.getNamesystem().getBlockManager()
        .getCorruptReplicas(new org.apache.hadoop.hdfs.protocol.Block(group()));
    return corrupt != null && corrupt.contains(descriptor(node));
  }

  @Test
  public void theBlockOfALeavingNodeIsClaimedAndTheNodeMayLeave() throws Exception {
    coordinator.lease(60_000);
    DataNode leaving = holder(0);
    DatanodeDescriptor node = descriptor(leaving);
    administer(() -> admin().startDecommission(node));
    waitUntil("a group at risk", () -> atRisk() != null && "leaving".equals(states().get(0L)));
    assertEquals(5, units().size());
    List<Message> nodes = coordinator.ask("nodes").messages("nodes");
    for (Message said : nodes) {
      boolean isLeaving = said.text("node").equals(leaving.getDatanodeUuid());
      assertEquals(said.toString(), isLeaving ? "leaving" : "up", said.text("state"));
    }
    DataNode target = free();
    storage(claim(7, target));
    assertTrue(claim(8, known.number("stamp"), Map.of(1L, allFree().get(1))).text("why")
        .contains("is there"));
    try (Frames agent = agent(target)) {
      assertEquals("named", commit(agent, Arrays.copyOf(content, CELL)).text("published"));
    }
    waitUntil("live", () -> isLive(target));
    release(7);
    waitUntil("it may leave", node::isDecommissioned);
  }

  @Test
  public void aBlockOnANodeInMaintenanceIsWantedElsewhereOnlyWhereTooFewOthersAreLeft()
      throws Exception {
    DataNode resting = holder(4);
    DatanodeDescriptor node = descriptor(resting);
    administer(() -> admin().startMaintenance(node, Long.MAX_VALUE));
    waitUntil("maintenance", node::isInMaintenance);
    loseFirst();
    assertEquals(Map.of(1L, "live", 2L, "live", 3L, "live", 4L, "live"), states());
    assertEquals(resting.getDatanodeUuid(), units().get(4L));
    long stamp = known.number("stamp");
    assertTrue(claim(7, stamp, Map.of(4L, free())).text("why").contains("block 4 is there"));
    storage(claim(8, free()));
    release(8);
    kill(holder(1));
    waitUntil("too few others", () -> atRisk() != null && "leaving".equals(states().get(4L)));
    storage(claim(9, stamp, Map.of(4L, free())));
  }

  @Test
  public void aNodeThatIsStoppedForMaintenanceIsWaitedForWhereEnoughOthersAreLeft()
      throws Exception {
    DataNode resting = holder(4);
    DatanodeDescriptor node = descriptor(resting);
    administer(() -> admin().startMaintenance(node, Long.MAX_VALUE));
    waitUntil("maintenance", node::isInMaintenance);
    kill(resting);
    loseFirst();
    assertFalse(node.isAlive());
    assertEquals(Map.of(1L, "live", 2L, "live", 3L, "live", 4L, "live"), states());
    assertEquals(resting.getDatanodeUuid(), units().get(4L));
    for (Message said : coordinator.ask("nodes").messages("nodes")) {
      if (said.text("node").equals(resting.getDatanodeUuid())) {
        assertEquals("leaving", said.text("state"));
      }
    }
    long stamp = known.number("stamp");
    assertTrue(claim(7, stamp, Map.of(4L, free())).text("why").contains("block 4 is there"));
    storage(claim(8, free()));
    release(8);
    kill(holder(1));
    waitUntil("too few others", () -> atRisk() != null && !states().containsKey(4L));
    storage(claim(9, stamp, Map.of(4L, free())));
  }
}
