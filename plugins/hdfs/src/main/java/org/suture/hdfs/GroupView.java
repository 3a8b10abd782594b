package org.suture.hdfs;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockCollection;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;
import org.apache.hadoop.hdfs.server.namenode.ErasureCodingPolicyManager;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;
import org.apache.hadoop.hdfs.server.namenode.INode;
import org.apache.hadoop.io.erasurecode.rawcoder.ButterflyRawErasureCoderFactory;

/**
 * What there is of a block group and where, as the NameNode knows it. The caller holds the
 * namesystem's lock.
 *
 * An internal block counts as {@code live} where a node that stays has it, as {@code leaving} where
 * only nodes that leave do, else as missing; a corrupt replica counts as none.
 */
final class GroupView {
  private static final Set<String> CODECS = Set.of("rs", ButterflyRawErasureCoderFactory.CODEC);

  private final FSNamesystem namesystem;
  private final BlockManager blocks;

  /** Where a group's file is, and what must not get another block of it. */
  static final class Place {
    final String path;
    final byte storagePolicy;
    final long blockBytes;
    final List<DatanodeStorageInfo> chosen = new ArrayList<>();

    Place(String path, byte storagePolicy, long blockBytes) {
      this.path = path;
      this.storagePolicy = storagePolicy;
      this.blockBytes = blockBytes;
    }
  }

  GroupView(FSNamesystem namesystem, BlockManager blocks) {
    this.namesystem = namesystem;
    this.blocks = blocks;
  }

  static boolean isServed(BlockInfoStriped group) {
    return isServed(group.getErasureCodingPolicy());
  }

  private static boolean isServed(ErasureCodingPolicy policy) {
    return policy != null && CODECS.contains(policy.getCodecName());
  }

  boolean isServed(String path) {
    try {
      INode node = namesystem.getFSDirectory().getINode(path);
      return node != null && node.isFile() && node.asFile().isStriped()
          && isServed(ErasureCodingPolicyManager.getInstance()
              .getByID(node.asFile().getErasureCodingPolicyID()));
    } catch (java.io.IOException e) {
      return false;
    }
  }

  /** The group's file; text that is no path where it has none. */
  String path(BlockInfoStriped group) {
    BlockCollection file = group == null ? null
        : namesystem.getBlockCollection(group.getBlockCollectionId());
    return file == null ? "" : file.getName();
  }

  Place place(BlockInfoStriped group) {
    BlockCollection file = namesystem.getBlockCollection(group.getBlockCollectionId());
    if (file == null) {
      return null;
    }
    Place place = new Place(file.getName(), file.getStoragePolicyID(),
        group.getNumBytes() / group.getDataBlockNum() + group.getCellSize());
    for (BlockInfoStriped.StorageAndBlockIndex unit : group.getStorageAndIndexInfos()) {
      place.chosen.add(unit.getStorage());
    }
    return place;
  }

  /** Whether HDFS lacks this internal block, or would have it elsewhere. */
  boolean isWanted(BlockInfoStriped group, int index) {
    int units = group.getDataBlockNum() + group.getParityBlockNum();
    return index < units && !"live".equals(states(group).getOrDefault(index, Unit.NONE).state);
  }

  boolean isLive(BlockInfoStriped group, int index, String node) {
    Collection<DatanodeDescriptor> corrupt = corrupt(group);
    for (BlockInfoStriped.StorageAndBlockIndex unit : group.getStorageAndIndexInfos()) {
      DatanodeDescriptor at = unit.getStorage().getDatanodeDescriptor();
      if (unit.getBlockIndex() == index && at.getDatanodeUuid().equals(node)
          && isUsable(unit.getStorage(), corrupt)) {
        return true;
      }
    }
    return false;
  }

  /** Changes when anything does that {@link #describe} says. */
  long fingerprint(BlockInfoStriped group) {
    long sum = 31 * group.getGenerationStamp() + group.getNumBytes();
    for (Map.Entry<Integer, Unit> unit : states(group).entrySet()) {
      sum = sum * 1_000_003 + unit.getKey();
      sum = sum * 1_000_003 + unit.getValue().node.hashCode();
      sum = sum * 1_000_003 + unit.getValue().state.hashCode();
    }
    return sum;
  }

  Message describe(BlockInfoStriped group) {
    ErasureCodingPolicy policy = group.getErasureCodingPolicy();
    List<Message> units = new ArrayList<>();
    states(group).forEach((index, unit) -> units.add(Message.empty()
        .with("index", (long) index).with("node", unit.node).with("state", unit.state)));
    return Message.empty().with("group", group.getBlockId())
        .with("stamp", group.getGenerationStamp()).with("bytes", group.getNumBytes())
        .with("cell", (long) group.getCellSize()).with("codec", policy.getCodecName())
        .with("data", (long) group.getDataBlockNum())
        .with("parity", (long) group.getParityBlockNum()).with("path", path(group))
        .withAll("units", units);
  }

  /** The best replica of each internal block. */
  private static final class Unit {
    static final Unit NONE = new Unit("", "");
    final String node;
    final String state;

    Unit(String node, String state) {
      this.node = node;
      this.state = state;
    }
  }

  private Map<Integer, Unit> states(BlockInfoStriped group) {
    Map<Integer, Unit> found = new TreeMap<>();
    Collection<DatanodeDescriptor> corrupt = corrupt(group);
    for (BlockInfoStriped.StorageAndBlockIndex unit : group.getStorageAndIndexInfos()) {
      if (!isUsable(unit.getStorage(), corrupt)) {
        continue;
      }
      DatanodeDescriptor at = unit.getStorage().getDatanodeDescriptor();
      boolean stays = at.isInService();
      Unit before = found.get((int) unit.getBlockIndex());
      if (before == null || (stays && before.state.equals("leaving"))) {
        found.put((int) unit.getBlockIndex(),
            new Unit(at.getDatanodeUuid(), stays ? "live" : "leaving"));
      }
    }
    return found;
  }

  private Collection<DatanodeDescriptor> corrupt(BlockInfoStriped group) {
    Collection<DatanodeDescriptor> corrupt = blocks.getCorruptReplicas(group);
    return corrupt == null ? List.of() : corrupt;
  }

  private static boolean isUsable(DatanodeStorageInfo storage,
      Collection<DatanodeDescriptor> corrupt) {
    return storage.getDatanodeDescriptor().isAlive()
        && !SutureBlocks.isFailed(storage)
        && !corrupt.contains(storage.getDatanodeDescriptor());
  }
}
