package org.suture.hdfs;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockPlacementPolicy;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;

/**
 * What the coordinator may ask of the NameNode's blocks: which groups lack something, which nodes
 * there are, to be left alone with a group, and whether a block has arrived.
 *
 * It is called by one thread. It keeps two small tables: what the coordinator knows of each group
 * at risk, so that only changes are sent, and the claims, which are taken back when the session
 * ends.
 */
final class Namespace implements Served {
  private final FSNamesystem namesystem;
  private final BooleanSupplier isActive;
  private final BlockManager blocks;
  private final NamesystemLock lock;
  private final GroupView view;
  private final ClaimTable claims;
  private final GroupsAtRisk groups;

  Namespace(FSNamesystem namesystem, BooleanSupplier isActive, long renewMillis)
      throws ReflectiveOperationException {
    this.namesystem = namesystem;
    this.isActive = isActive;
    blocks = namesystem.getBlockManager();
    lock = new NamesystemLock(namesystem);
    view = new GroupView(namesystem, blocks);
    claims = new ClaimTable(blocks, lock, view, renewMillis);
    groups = new GroupsAtRisk(blocks, lock, view);
  }

  /** Fails where this Hadoop lacks something that is needed later. */
  void selfTest() {
    lock.read(() -> {
      SutureBlocks.selfTest(blocks);
      view.selfTest();
      return null;
    });
    lock.write(() -> null);
    new Targets(blocks);
  }

  BlockPlacementPolicy placementPolicy() {
    return blocks.getStriptedBlockPlacementPolicy();
  }

  @Override
  public String blockPool() {
    return namesystem.getBlockPoolId();
  }

  @Override
  public boolean isActive() {
    return isActive.getAsBoolean();
  }

  /** Also whether the NameNode has heard of enough blocks to know what is lost. */
  @Override
  public boolean isServing() {
    return isActive() && blocks.isPopulatingReplQueues() && !namesystem.isInSafeMode();
  }

  /**
   * Whether Suture would rebuild something of a group of this file. Where there is none at that
   * path now, a snapshot may keep it: then whatever the coordinator was told of lacks something.
   */
  boolean isLacking(String path, int live, long bytes) {
    return lock.read(() -> view.isFree(path) ? groups.isUnnamed(path)
        : view.isLacking(path, live, bytes));
  }

  @Override
  public void beginSession() {
    groups.forget();
  }

  @Override
  public Message answer(String op, Message request) throws ProtocolException {
    switch (op) {
      case "lease":
        return lease(request);
      case "nodes":
        return nodes();
      case "groups":
        claims.prolong();
        return groups.changes(
            claims.all().stream().map(claim -> claim.group).collect(Collectors.toSet()));
      case "claim":
        return claims.claim(request.messages("claims"));
      case "release":
        claims.release(request.number("repair"));
        return Message.empty();
      case "confirm":
        return confirm(request);
      case "condemn":
        return condemn(request);
      default:
        throw new ProtocolException("a request '" + op + "' that is none");
    }
  }

  private Message lease(Message request) throws ProtocolException {
    List<Long> leave = new ArrayList<>();
    for (Message group : request.messages("leave")) {
      leave.add(group.number("group"));
    }
    Set<String> left = new HashSet<>();
    lock.read(() -> {
      leave.forEach(group -> left.add(view.path(view.stored(group))));
      return null;
    });
    Lease.renew(request.number("millis", 0, Lease.MILLIS_MAX), left);
    return Message.empty();
  }

  private Message nodes() {
    List<Message> nodes = new ArrayList<>();
    for (DatanodeDescriptor node
        : blocks.getDatanodeManager().getDatanodeListForReport(DatanodeReportType.ALL)) {
      // A host that dfs.hosts names and that has never registered has nothing, not even a name.
      if (node.getDatanodeUuid() == null || node.getDatanodeUuid().isEmpty()) {
        continue;
      }
      boolean isLeaving = node.isDecommissionInProgress() || node.isDecommissioned()
          || node.isMaintenance();
      // One that is stopped for maintenance is silent, and comes back with its blocks.
      boolean isDead = !node.isAlive() && !node.isInMaintenance();
      String state = isDead ? "dead" : isLeaving ? "leaving" : "up";
      nodes.add(Message.empty().with("node", node.getDatanodeUuid())
          .with("name", node.getHostName() + ":" + node.getXferPort())
          .with("rack", node.getNetworkLocation()).with("state", state));
    }
    return Message.empty().withAll("nodes", nodes);
  }

  private Message confirm(Message request) throws ProtocolException {
    long id = request.number("group");
    long stamp = request.number("stamp");
    int index = (int) request.number("index", 0, 15);
    String node = request.text("node");
    return lock.read(() -> {
      BlockInfoStriped group = view.stored(id);
      if (group == null) {
        return Message.empty().with("live", false);
      }
      boolean isLive =
          group.getGenerationStamp() == stamp && view.isLive(group, index, node);
      return Message.empty().with("live", isLive).with("group", view.describe(group));
    });
  }

  /**
   * Has HDFS count a block as corrupt that is wrong by all others of its group, though it passes its
   * own checksums: HDFS would rebuild others from it, and call the group whole.
   */
  private Message condemn(Message request) throws ProtocolException {
    long id = request.number("group");
    long stamp = request.number("stamp");
    int index = (int) request.number("index", 0, 15);
    String node = request.text("node");
    return lock.write(() -> {
      BlockInfoStriped group = view.stored(id);
      if (group == null) {
        return Message.empty();
      }
      DatanodeStorageInfo storage = view.storage(group, index, node);
      if (storage != null && group.getGenerationStamp() == stamp && group.isComplete()) {
        PluginMetrics.get().corrupt();
        PluginLog.LOG.warn("Suture: block {} of group {} on {} has wrong bytes by all others of it",
            index, id, storage.getDatanodeDescriptor());
        SutureBlocks.condemn(blocks, blockPool(), group, index, storage,
            "Suture: wrong by all other blocks of its group");
      }
      return Message.empty().with("group", view.describe(group));
    });
  }

  @Override
  public void releaseAll() {
    Lease.end();
    claims.releaseAll();
    groups.forget();
  }

  /**
   * What is pending on a NameNode that is not the active one any more is the other one's to know.
   * An active one in safe mode goes on with its own list, so there the claims are taken off it.
   */
  @Override
  public void pause() {
    if (!isActive()) {
      claims.forget();
    }
    releaseAll();
  }
}
