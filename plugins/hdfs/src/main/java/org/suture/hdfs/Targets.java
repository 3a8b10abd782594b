package org.suture.hdfs;

import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.hdfs.protocol.BlockStoragePolicy;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;
import org.apache.hadoop.net.Node;

/**
 * Whether a node may get a block, and on which of its storages: asked of HDFS's own placement
 * policy, with every other node excluded. So storage types and room count as HDFS counts them, and
 * racks by what stays of the group, as where HDFS rebuilds it itself. Where it can, the policy has a
 * rack of few of its blocks; with one node to choose from it takes a rack that has one more. It
 * takes the node for the one that writes, of which it does not ask how busy it is.
 *
 * Made for a batch of claims: which nodes there are is asked once for all of them.
 */
final class Targets {
  private final BlockManager blocks;
  /** Whoever is excluded: all live nodes, but for the one that is asked about. */
  private final Set<Node> others;

  Targets(BlockManager blocks) {
    this.blocks = blocks;
    others = new HashSet<>(
        blocks.getDatanodeManager().getDatanodeListForReport(DatanodeReportType.LIVE));
  }

  /** The storage that the policy chooses on that node; null where it wants none. */
  DatanodeStorageInfo storage(GroupView.Place place, String uuid) {
    DatanodeDescriptor node = blocks.getDatanodeManager().getDatanode(uuid);
    if (place == null || node == null || !node.isAlive() || !node.isInService()
        || place.holders.contains(node)) {
      return null;
    }
    BlockStoragePolicy kind = blocks.getStoragePolicy(place.storagePolicy);
    others.remove(node);
    try {
      // The policy adds to what is excluded, and takes nothing away.
      DatanodeStorageInfo[] chosen = SuturePlacementPolicy.unvetoed(() ->
          blocks.getStriptedBlockPlacementPolicy().chooseTarget(place.path, 1, node, place.chosen,
              false, others, place.blockBytes, kind, null));
      boolean isThere = chosen.length == 1 && chosen[0].getDatanodeDescriptor() == node;
      return isThere ? chosen[0] : null;
    } finally {
      others.add(node);
    }
  }
}
