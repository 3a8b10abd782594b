package org.suture.hdfs;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;

/**
 * The claims that last, each counted by the NameNode as blocks that are being built.
 *
 * They end when they are released, when nobody asks for them again, and with the session. Whatever
 * ends one, the NameNode is told: what it kept out of the queue goes into it again.
 */
final class ClaimTable {
  static final int CLAIMS_MAX = 64;

  private final BlockManager blocks;
  private final NamesystemLock lock;
  private final GroupView view;
  /** How often the NameNode is told again of what it would forget after a while. */
  private final long renewMillis;
  private final Map<Long, Claim> claims = new LinkedHashMap<>();
  private String lastFlaw = "";

  ClaimTable(BlockManager blocks, NamesystemLock lock, GroupView view, long renewMillis) {
    this.blocks = blocks;
    this.lock = lock;
    this.view = view;
    this.renewMillis = renewMillis;
  }

  Collection<Claim> all() {
    return claims.values();
  }

  Message claim(List<Message> asked) throws ProtocolException {
    if (asked.size() > CLAIMS_MAX) {
      throw new ProtocolException(asked.size() + " claims at once");
    }
    List<Claim> wanted = new ArrayList<>();
    for (Message message : asked) {
      wanted.add(Claim.read(message));
    }
    // The placement policy is asked without the lock, as the NameNode itself does.
    Targets targets = new Targets(blocks);
    for (Claim claim : wanted) {
      Claim before = claims.get(claim.repair);
      if (before == null || !claim.goesOn(before)) {
        choose(claim, targets);
      }
    }
    List<Message> answers = lock.write(() -> {
      List<Message> all = new ArrayList<>();
      wanted.forEach(claim -> all.add(judge(claim)));
      return all;
    });
    int granted = (int) answers.stream().filter(answer -> !answer.has("why")).count();
    PluginMetrics.get().claimed(granted, answers.size() - granted);
    return Message.empty().withAll("claims", answers);
  }

  private void choose(Claim claim, Targets targets) {
    try {
      BlockInfoStriped group = lock.read(() -> view.stored(claim.group));
      claim.choose(group, targets, group == null ? null : lock.read(() -> view.place(group)));
    } catch (RuntimeException | LinkageError e) {
      claim.fail(flaw(e));
    }
  }

  /**
   * One claim, under the lock. Where the NameNode fails over it, it is refused, which leaves its
   * group to HDFS, and costs no other of the batch.
   */
  private Message judge(Claim claim) {
    try {
      return grant(claim);
    } catch (RuntimeException | LinkageError e) {
      claims.remove(claim.repair);
      return refused(flaw(e), view.stored(claim.group));
    }
  }

  /** What went wrong, as the coordinator is told; the log has it once for as long as it is so. */
  private String flaw(Throwable error) {
    String why = "it could not be judged: " + PluginLog.reason(error);
    if (!why.equals(lastFlaw)) {
      PluginLog.LOG.error("Suture: a claim is refused, {}", why, error);
    }
    lastFlaw = why;
    return why;
  }

  private Message refused(String why, BlockInfoStriped group) {
    Message answer = Message.empty().with("why", why);
    return group == null ? answer : answer.with("group", view.describe(group));
  }

  /** A refusal has the group as it stands, and ends what was granted. */
  private Message grant(Claim claim) {
    BlockInfoStriped group = view.stored(claim.group);
    String why = claim.refusal(group, view);
    if (why != null || !claim.isGoingOn()) {
      Claim before = claims.remove(claim.repair);
      if (before != null) {
        end(before);
      }
      why = why == null ? conflict(claim, group) : why;
    }
    if (why == null) {
      count(claim, group);
      claim.prolong(renewMillis);
      claims.put(claim.repair, claim);
      return Message.empty().withAll("targets", claim.described());
    }
    return refused(why, group);
  }

  /** Who else builds something of the group; null: nobody. */
  private String conflict(Claim claim, BlockInfoStriped group) {
    boolean isTaken = claims.values().stream().anyMatch(other -> other.group == claim.group);
    if (isTaken) {
      return "another repair has it";
    }
    return SutureBlocks.isPending(blocks, group) ? "the NameNode is repairing it" : null;
  }

  /** Has the NameNode count what has not arrived; what has, it has taken off its list. */
  private void count(Claim claim, BlockInfoStriped group) {
    DatanodeStorageInfo[] awaited = claim.awaited(group, view);
    if (awaited.length > 0) {
      SutureBlocks.claim(blocks, group, awaited);
    }
  }

  void release(long repair) {
    Claim claim = claims.remove(repair);
    if (claim != null) {
      release(claim);
    }
  }

  private void release(Claim claim) {
    lock.write(() -> {
      end(claim);
      return null;
    });
  }

  private void end(Claim claim) {
    BlockInfoStriped group = view.stored(claim.group);
    if (group != null) {
      SutureBlocks.release(blocks, group, claim.storages());
    }
  }

  /** Keeps the NameNode from taking over what is claimed and takes long; ends what nobody wants. */
  void prolong() {
    List<Claim> over = new ArrayList<>();
    claims.values().removeIf(claim -> claim.isOver() && over.add(claim));
    over.forEach(this::release);
    for (Claim claim : claims.values()) {
      if (claim.isDue()) {
        lock.write(() -> {
          BlockInfoStriped group = view.stored(claim.group);
          if (group != null && claim.isOf(group)) {
            count(claim, group);
          }
          return null;
        });
        claim.renewed(renewMillis);
      }
    }
  }

  void releaseAll() {
    try {
      claims.values().forEach(this::release);
    } catch (RuntimeException | LinkageError e) {
      PluginLog.LOG.warn("Suture: claims end by the NameNode's own timeout: {}",
          PluginLog.reason(e));
    }
    claims.clear();
  }

  /** Forgets them without a word to the NameNode. */
  void forget() {
    claims.clear();
  }
}
