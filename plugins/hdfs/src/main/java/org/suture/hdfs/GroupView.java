package org.suture.hdfs;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.ErasureCodingPolicy;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockCollection;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;
import org.apache.hadoop.hdfs.server.namenode.ErasureCodingPolicyManager;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;
import org.apache.hadoop.hdfs.server.namenode.INode;
import org.apache.hadoop.hdfs.server.namenode.INodeFile;
import org.apache.hadoop.io.erasurecode.rawcoder.ButterflyRawErasureCoderFactory;

/**
 * What there is of a block group and where, as the NameNode knows it. The caller holds the
 * namesystem's lock.
 *
 * An internal block counts as {@code live} where a node that stays has it, as {@code leaving} where
 * only nodes that leave do, else as missing; a corrupt replica counts as none, and so does one that
 * was ordered away as one too many and is still there. A node in
 * maintenance comes back, and HDFS wants nothing of it elsewhere while those that stay could decode
 * the group: its blocks are live then, also where it is stopped; otherwise leaving, or missing where
 * it is stopped.
 */
final class GroupView {
  private static final Set<String> CODECS = Set.of("rs", ButterflyRawErasureCoderFactory.CODEC);

  /** A description but for its path: 16 units of a hundred bytes, and numbers. */
  private static final long DESCRIBED_BYTES_MAX = 2_048;

  private final FSNamesystem namesystem;
  private final BlockManager blocks;

  /** Where a group's file is, and what must not get another block of it. */
  static final class Place {
    final String path;
    final byte storagePolicy;
    final long blockBytes;
    /** What stays of the group, by which HDFS spreads the rest over racks. */
    final List<DatanodeStorageInfo> chosen = new ArrayList<>();
    /** Every node that has something of the group, whatever that is worth. */
    final Set<DatanodeDescriptor> holders = new HashSet<>();

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

  /** Asks of no group what is asked of groups: what this Hadoop lacks shows when it starts. */
  void selfTest() {
    Block none = new Block(Long.MIN_VALUE);
    stored(none.getBlockId());
    blocks.getCorruptReplicas(none);
    blocks.getStoragePolicy((byte) 0);
    namesystem.getBlockCollection(0L);
    isLacking("/", 0, 1);
  }

  static boolean isServed(BlockInfoStriped group) {
    return isServed(group.getErasureCodingPolicy());
  }

  private static boolean isServed(ErasureCodingPolicy policy) {
    return policy != null && CODECS.contains(policy.getCodecName());
  }

  /**
   * Whether a group of the file at this path has a code that Suture serves and lacks blocks, where
   * it has so many bytes and so many live blocks. One that has them all is to lie elsewhere, which
   * is not Suture's; neither is one whose other blocks come back with nodes in maintenance.
   */
  boolean isLacking(String path, int live, long bytes) {
    try {
      INode node = namesystem.getFSDirectory().getINode(path);
      if (node == null || !node.isFile() || !node.asFile().isStriped()) {
        return false;
      }
      ErasureCodingPolicy policy = ErasureCodingPolicyManager.getInstance()
          .getByID(node.asFile().getErasureCodingPolicyID());
      return isServed(policy) && live < units(policy, bytes)
          && isAnyLacking(node.asFile(), bytes);
    } catch (java.io.IOException e) {
      return false;
    }
  }

  /** Whether a group of the file that has so many bytes waits for blocks to be built. */
  private boolean isAnyLacking(INodeFile file, long bytes) {
    for (BlockInfo block : file.getBlocks()) {
      if (block.isStriped() && block.getNumBytes() == bytes && SutureBlocks.isQueued(blocks, block)
          && !isWhole((BlockInfoStriped) block)) {
        return true;
      }
    }
    return false;
  }

  /** How many internal blocks a group of so many bytes has. */
  private static long units(ErasureCodingPolicy policy, long bytes) {
    long cells = (bytes - 1) / policy.getCellSize() + 1;
    return Math.min(policy.getNumDataUnits(), cells) + policy.getNumParityUnits();
  }

  /** The group as the NameNode has it; null where it is gone. */
  BlockInfoStriped stored(long group) {
    BlockInfo block = blocks.getStoredBlock(new Block(group));
    boolean isGroup = block != null && block.isStriped() && !block.isDeleted();
    return isGroup ? (BlockInfoStriped) block : null;
  }

  /** The group's file; text that is no path where it has none. */
  String path(BlockInfoStriped group) {
    BlockCollection file = group == null ? null
        : namesystem.getBlockCollection(group.getBlockCollectionId());
    return file == null ? "" : file.getName();
  }

  /** Whether nothing has this path now. */
  boolean isFree(String path) {
    try {
      return namesystem.getFSDirectory().getINode(path) == null;
    } catch (java.io.IOException e) {
      return false;
    }
  }

  /** Whether the group's file has its path now; one that only a snapshot keeps has none. */
  boolean isNamed(BlockInfoStriped group) {
    BlockCollection file = namesystem.getBlockCollection(group.getBlockCollectionId());
    try {
      INode named = file == null ? null : namesystem.getFSDirectory().getINode(file.getName());
      return named != null && named.getId() == group.getBlockCollectionId();
    } catch (java.io.IOException e) {
      return false;
    }
  }

  Place place(BlockInfoStriped group) {
    BlockCollection file = namesystem.getBlockCollection(group.getBlockCollectionId());
    if (file == null) {
      return null;
    }
    Place place = new Place(file.getName(), file.getStoragePolicyID(),
        group.getNumBytes() / group.getDataBlockNum() + group.getCellSize());
    Collection<DatanodeDescriptor> corrupt = corrupt(group);
    for (BlockInfoStriped.StorageAndBlockIndex unit : group.getStorageAndIndexInfos()) {
      DatanodeDescriptor node = unit.getStorage().getDatanodeDescriptor();
      place.holders.add(node);
      if (isThere(group, unit.getStorage(), corrupt) && Stay.of(node) != Stay.LEAVES) {
        place.chosen.add(unit.getStorage());
      }
    }
    return place;
  }

  /** Whether HDFS lacks this internal block, or would have it elsewhere. */
  boolean isWanted(BlockInfoStriped group, int index) {
    int units = group.getDataBlockNum() + group.getParityBlockNum();
    return index < units && !"live".equals(states(group).getOrDefault(index, Unit.NONE).state);
  }

  /** Whether nothing of it is to be built: what HDFS may want of it is another place. */
  boolean isWhole(BlockInfoStriped group) {
    Map<Integer, Unit> found = states(group);
    return found.size() >= group.getRealTotalBlockNum()
        && found.values().stream().allMatch(unit -> unit.state.equals("live"));
  }

  boolean isLive(BlockInfoStriped group, int index, String node) {
    DatanodeStorageInfo storage = storage(group, index, node);
    return storage != null && storage.getDatanodeDescriptor().isAlive();
  }

  /** Where a node has an internal block, as far as it counts there; null where it does not. */
  DatanodeStorageInfo storage(BlockInfoStriped group, int index, String node) {
    Collection<DatanodeDescriptor> corrupt = corrupt(group);
    for (BlockInfoStriped.StorageAndBlockIndex unit : group.getStorageAndIndexInfos()) {
      DatanodeDescriptor at = unit.getStorage().getDatanodeDescriptor();
      if (unit.getBlockIndex() == index && at.getDatanodeUuid().equals(node)
          && isThere(group, unit.getStorage(), corrupt)) {
        return unit.getStorage();
      }
    }
    return null;
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

  /**
   * How many bytes of JSON the description takes at most: each character of the path may be
   * escaped.
   */
  long describedBytesMax(BlockInfoStriped group) {
    return DESCRIBED_BYTES_MAX + 6L * path(group).length();
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

  /** What a node that has a block is about to do, the best of it first. */
  private enum Stay {
    STAYS, COMES_BACK, IS_STOPPED, LEAVES;

    static Stay of(DatanodeDescriptor node) {
      return node.isInService() ? STAYS : !node.isMaintenance() ? LEAVES
          : node.isAlive() ? COMES_BACK : IS_STOPPED;
    }
  }

  private Map<Integer, Unit> states(BlockInfoStriped group) {
    Map<Integer, DatanodeDescriptor> best = new TreeMap<>();
    Collection<DatanodeDescriptor> corrupt = corrupt(group);
    for (BlockInfoStriped.StorageAndBlockIndex unit : group.getStorageAndIndexInfos()) {
      if (isThere(group, unit.getStorage(), corrupt)) {
        best.merge((int) unit.getBlockIndex(), unit.getStorage().getDatanodeDescriptor(),
            (one, other) -> Stay.of(other).compareTo(Stay.of(one)) < 0 ? other : one);
      }
    }
    long staying = best.values().stream().filter(node -> Stay.of(node) == Stay.STAYS).count();
    boolean areAwaited = staying >= group.getRealDataBlockNum();
    Map<Integer, Unit> found = new TreeMap<>();
    best.forEach((index, node) -> {
      Stay stay = Stay.of(node);
      if (areAwaited || stay != Stay.IS_STOPPED) {
        boolean isLive = stay == Stay.STAYS || areAwaited && stay != Stay.LEAVES;
        found.put(index, new Unit(node.getDatanodeUuid(), isLive ? "live" : "leaving"));
      }
    });
    return found;
  }

  private Collection<DatanodeDescriptor> corrupt(BlockInfoStriped group) {
    Collection<DatanodeDescriptor> corrupt = blocks.getCorruptReplicas(group);
    return corrupt == null ? List.of() : corrupt;
  }

  /**
   * Whether a replica is on a node that is there, or comes back. It counts as HDFS counts it, or a
   * group that lacks one is nobody's.
   */
  private boolean isThere(BlockInfoStriped group, DatanodeStorageInfo storage,
      Collection<DatanodeDescriptor> corrupt) {
    DatanodeDescriptor node = storage.getDatanodeDescriptor();
    return (node.isAlive() || node.isInMaintenance()) && !SutureBlocks.isFailed(storage)
        && !corrupt.contains(node) && !SutureBlocks.isExcess(blocks, node, group);
  }
}
