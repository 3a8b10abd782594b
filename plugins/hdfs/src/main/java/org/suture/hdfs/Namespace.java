package org.suture.hdfs;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockPlacementPolicy;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;

/**
 * What the coordinator may ask of the NameNode's blocks: which groups lack something, which nodes
 * there are, to be left alone with a group, and whether a block has arrived.
 *
 * It is called by one thread. It keeps two small tables: what the coordinator knows of each group at
 * risk, so that only changes are sent, and the claims, which are taken back when the session ends.
 */
final class Namespace {
  /** Groups at risk that the coordinator is told of; the others follow as these are rebuilt. */
  static final int GROUPS_MAX = 8192;
  /** Groups described in one answer: the lock is held for as long, milliseconds. */
  private static final int DESCRIBED_MAX = 500;
  static final int CLAIMS_MAX = 64;
  static final long CLAIM_MILLIS = 300_000;

  private final FSNamesystem namesystem;
  private final BlockManager blocks;
  private final NamesystemLock lock;
  private final GroupView view;
  private final Targets targets;
  private final Map<Long, Long> known = new HashMap<>();
  private final Map<Long, Claim> claims = new LinkedHashMap<>();

  Namespace(FSNamesystem namesystem) throws ReflectiveOperationException {
    this.namesystem = namesystem;
    blocks = namesystem.getBlockManager();
    lock = new NamesystemLock(namesystem);
    view = new GroupView(namesystem, blocks);
    targets = new Targets(blocks);
  }

  /** Fails where this Hadoop lacks something that is needed later. */
  void selfTest() {
    SutureBlocks.selfTest(blocks);
    lock.read(() -> SutureBlocks.lowRedundancy(blocks).hasNext());
    lock.write(() -> null);
  }

  BlockPlacementPolicy placementPolicy() {
    return blocks.getStriptedBlockPlacementPolicy();
  }

  String blockPool() {
    return namesystem.getBlockPoolId();
  }

  /** Whether the NameNode has heard of enough blocks to know what is lost. */
  boolean isReady() {
    return blocks.isPopulatingReplQueues() && !namesystem.isInSafeMode();
  }

  /** Whether groups of this file have a code that Suture serves. */
  boolean isServed(String path) {
    return lock.read(() -> view.isServed(path));
  }

  /** The coordinator knows nothing yet. */
  void beginSession() {
    known.clear();
  }

  Message answer(String op, Message request) throws ProtocolException {
    switch (op) {
      case "lease":
        return lease(request);
      case "nodes":
        return nodes();
      case "groups":
        return groups();
      case "claim":
        return claim(request.messages("claims"));
      case "release":
        return release(request.number("repair"));
      case "confirm":
        return confirm(request);
      default:
        throw new ProtocolException("a request '" + op + "' that is none");
    }
  }

  private Message lease(Message request) throws ProtocolException {
    Set<String> left = new HashSet<>();
    for (Message group : request.messages("leave")) {
      String path = lock.read(() -> view.path(stored(unchecked(group, "group"))));
      left.add(path);
    }
    Lease.renew(request.number("millis", 0, Lease.MILLIS_MAX), left);
    return Message.empty();
  }

  private Message nodes() {
    List<Message> nodes = new ArrayList<>();
    for (DatanodeDescriptor node
        : blocks.getDatanodeManager().getDatanodeListForReport(DatanodeReportType.ALL)) {
      boolean isLeaving = node.isDecommissionInProgress() || node.isDecommissioned()
          || node.isMaintenance();
      String state = !node.isAlive() ? "dead" : isLeaving ? "leaving" : "up";
      nodes.add(Message.empty().with("node", node.getDatanodeUuid())
          .with("name", node.getHostName() + ":" + node.getXferPort())
          .with("rack", node.getNetworkLocation()).with("state", state));
    }
    return Message.empty().withAll("nodes", nodes);
  }

  private Message groups() {
    prolong();
    return lock.read(() -> {
      Map<Long, BlockInfoStriped> now = atRisk();
      List<Message> changed = new ArrayList<>();
      boolean hasMore = false;
      for (BlockInfoStriped group : now.values()) {
        long state = view.fingerprint(group);
        Long before = known.get(group.getBlockId());
        if (before != null && before == state) {
          continue;
        }
        if (changed.size() == DESCRIBED_MAX) {
          hasMore = true;
          break;
        }
        changed.add(view.describe(group));
        known.put(group.getBlockId(), state);
      }
      List<Object> gone = new ArrayList<>();
      for (Iterator<Long> ids = known.keySet().iterator(); ids.hasNext();) {
        Long id = ids.next();
        if (!now.containsKey(id)) {
          gone.add(id);
          ids.remove();
        }
      }
      return Message.empty().withAll("groups", changed).with("gone", gone).with("more", hasMore);
    });
  }

  /** What is claimed, which has left the NameNode's queue, and what is most at risk of the rest. */
  private Map<Long, BlockInfoStriped> atRisk() {
    Map<Long, BlockInfoStriped> found = new LinkedHashMap<>();
    for (Claim claim : claims.values()) {
      BlockInfoStriped group = stored(claim.group);
      if (group != null) {
        found.put(claim.group, group);
      }
    }
    Iterator<BlockInfo> all = SutureBlocks.lowRedundancy(blocks);
    while (all.hasNext() && found.size() < GROUPS_MAX) {
      BlockInfo block = all.next();
      if (block.isStriped() && block.isComplete() && !block.isDeleted()
          && GroupView.isServed((BlockInfoStriped) block)) {
        found.put(block.getBlockId(), (BlockInfoStriped) block);
      }
    }
    return found;
  }

  private Message claim(List<Message> asked) throws ProtocolException {
    if (asked.size() > CLAIMS_MAX) {
      throw new ProtocolException(asked.size() + " claims at once");
    }
    List<Claim> wanted = new ArrayList<>();
    for (Message message : asked) {
      wanted.add(Claim.read(message));
    }
    // The placement policy is asked without the lock, as the NameNode itself does.
    for (Claim claim : wanted) {
      BlockInfoStriped group = lock.read(() -> stored(claim.group));
      claim.choose(group, targets, group == null ? null : lock.read(() -> view.place(group)));
    }
    List<Message> answers = new ArrayList<>();
    long[] held = new long[1];
    lock.write(() -> {
      long from = System.nanoTime();
      wanted.forEach(claim -> answers.add(grant(claim)));
      held[0] = (System.nanoTime() - from) / 1000;
      return null;
    });
    int granted = (int) answers.stream().filter(answer -> !answer.has("why")).count();
    PluginMetrics.get().claimed(granted, answers.size() - granted, held[0]);
    return Message.empty().withAll("claims", answers);
  }

  /** One claim, under the lock. A refusal has the group as it stands. */
  private Message grant(Claim claim) {
    BlockInfoStriped group = stored(claim.group);
    String why = claim.refusal(group, view);
    Claim before = claims.get(claim.repair);
    if (why == null && before == null) {
      for (Claim other : claims.values()) {
        why = other.group == claim.group ? "another repair has it" : why;
      }
      if (why == null && SutureBlocks.isPending(blocks, group)) {
        why = "the NameNode is repairing it";
      }
    }
    if (why == null) {
      SutureBlocks.claim(blocks, group, claim.storages());
      claim.prolong();
      claims.put(claim.repair, claim);
      return Message.empty().withAll("targets", claim.described());
    }
    Message answer = Message.empty().with("why", why);
    return group == null ? answer : answer.with("group", view.describe(group));
  }

  private Message release(long repair) {
    Claim claim = claims.remove(repair);
    if (claim != null) {
      release(claim);
    }
    return Message.empty();
  }

  private void release(Claim claim) {
    lock.write(() -> {
      BlockInfoStriped group = stored(claim.group);
      if (group != null) {
        SutureBlocks.release(blocks, group, claim.storages());
      }
      return null;
    });
  }

  /** Keeps the NameNode from taking over what is claimed and takes long; ends what nobody wants. */
  private void prolong() {
    List<Claim> over = new ArrayList<>();
    claims.values().removeIf(claim -> claim.isOver() && over.add(claim));
    over.forEach(this::release);
    for (Claim claim : claims.values()) {
      if (claim.isDue()) {
        lock.write(() -> {
          BlockInfoStriped group = stored(claim.group);
          if (group != null && claim.refusal(group, view) == null) {
            SutureBlocks.claim(blocks, group, claim.storages());
          }
          return null;
        });
        claim.renewed();
      }
    }
  }

  /** The session has ended: HDFS repairs by itself, at once. */
  void releaseAll() {
    Lease.end();
    try {
      claims.values().forEach(this::release);
    } catch (RuntimeException | LinkageError e) {
      PluginLog.LOG.warn("Suture: claims end by the NameNode's own timeout: {}",
          PluginLog.reason(e));
    }
    claims.clear();
    known.clear();
  }

  /** This NameNode is not the active one any more: what is pending is the other one's to know. */
  void retire() {
    Lease.end();
    claims.clear();
    known.clear();
  }

  private Message confirm(Message request) throws ProtocolException {
    long id = request.number("group");
    long stamp = request.number("stamp");
    int index = (int) request.number("index", 0, 15);
    String node = request.text("node");
    return lock.read(() -> {
      BlockInfoStriped group = stored(id);
      if (group == null) {
        return Message.empty().with("live", false);
      }
      boolean isLive =
          group.getGenerationStamp() == stamp && view.isLive(group, index, node);
      return Message.empty().with("live", isLive).with("group", view.describe(group));
    });
  }

  /** The group as the NameNode has it; null where it is gone. */
  private BlockInfoStriped stored(long group) {
    BlockInfo block = blocks.getStoredBlock(new Block(group));
    boolean isGroup = block != null && block.isStriped() && !block.isDeleted();
    return isGroup ? (BlockInfoStriped) block : null;
  }

  private static long unchecked(Message message, String name) {
    try {
      return message.number(name);
    } catch (ProtocolException e) {
      throw new IllegalArgumentException(e.getMessage(), e);
    }
  }
}
