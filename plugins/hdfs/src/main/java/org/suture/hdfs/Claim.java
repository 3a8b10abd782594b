package org.suture.hdfs;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;

/**
 * Word that a repair is about to build internal blocks of a group, each on a node of its choice.
 */
final class Claim {
  /** What nobody asks for again ends after this. */
  private static final long LIFETIME_MILLIS = 300_000;

  final long repair;
  final long group;
  private final long stamp;
  private final List<Target> targets = new ArrayList<>();
  private boolean isGoingOn;
  /** Why it could not be judged; null where it could. */
  private String flaw;
  private long endNanos;
  private long renewNanos;

  /** One internal block and where it goes. */
  private static final class Target {
    final int index;
    final String node;
    DatanodeStorageInfo storage;

    Target(int index, String node) {
      this.index = index;
      this.node = node;
    }
  }

  private Claim(long repair, long group, long stamp) {
    this.repair = repair;
    this.group = group;
    this.stamp = stamp;
  }

  static Claim read(Message message) throws ProtocolException {
    Claim claim =
        new Claim(message.number("repair"), message.number("group"), message.number("stamp"));
    List<Message> targets = message.messages("targets");
    if (targets.isEmpty() || targets.size() > 16) {
      throw new ProtocolException("a claim of " + targets.size() + " blocks");
    }
    for (Message target : targets) {
      claim.targets.add(new Target((int) target.number("index", 0, 15), target.text("node")));
    }
    return claim;
  }

  /** Asks the placement policy about each target, as if those before it had their blocks. */
  void choose(BlockInfoStriped found, Targets policy, GroupView.Place place) {
    if (found == null) {
      return;
    }
    for (Target target : targets) {
      target.storage = policy.storage(place, target.node);
      if (target.storage != null) {
        place.chosen.add(target.storage);
        place.holders.add(target.storage.getDatanodeDescriptor());
      }
    }
  }

  /**
   * Goes on with a claim that was granted, if it asks for nothing that this one did not; says
   * whether. Its blocks go where they were put then: half of a block may be there by now, and where
   * the policy would put it today, when that node is busier, is of no interest.
   */
  boolean goesOn(Claim before) {
    if (group != before.group || stamp != before.stamp) {
      return false;
    }
    for (Target target : targets) {
      for (Target same : before.targets) {
        if (same.index == target.index && same.node.equals(target.node)) {
          target.storage = same.storage;
        }
      }
    }
    isGoingOn = targets.stream().allMatch(target -> target.storage != null);
    return isGoingOn;
  }

  /** Whether it goes on with one that was granted. */
  boolean isGoingOn() {
    return isGoingOn;
  }

  /** It cannot be judged. */
  void fail(String why) {
    flaw = why;
  }

  /** Why it is not granted; null where nothing is against it. */
  String refusal(BlockInfoStriped found, GroupView view) {
    if (flaw != null) {
      return flaw;
    }
    if (found == null) {
      return "the group is gone";
    }
    if (!isOf(found)) {
      return "the group has another generation stamp, or is being written";
    }
    for (Target target : targets) {
      if (target.storage == null) {
        return "the placement policy wants no block of it on " + target.node;
      }
      // Of one that goes on some may have arrived.
      if (!isGoingOn && !view.isWanted(found, target.index)) {
        return "block " + target.index + " is there";
      }
    }
    return null;
  }

  /** Whether the group is still the one that was claimed. */
  boolean isOf(BlockInfoStriped found) {
    return found.getGenerationStamp() == stamp && found.isComplete();
  }

  DatanodeStorageInfo[] storages() {
    return targets.stream().map(target -> target.storage).toArray(DatanodeStorageInfo[]::new);
  }

  /** As {@link #storages}, of those blocks that have not arrived. */
  DatanodeStorageInfo[] awaited(BlockInfoStriped found, GroupView view) {
    return targets.stream().filter(target -> view.isWanted(found, target.index))
        .map(target -> target.storage).toArray(DatanodeStorageInfo[]::new);
  }

  /** Where the policy put each block. */
  List<Message> described() {
    List<Message> all = new ArrayList<>();
    for (Target target : targets) {
      all.add(Message.empty().with("index", (long) target.index)
          .with("storage", target.storage.getStorageID())
          .with("type", target.storage.getStorageType().toString()));
    }
    return all;
  }

  void prolong(long renewMillis) {
    endNanos = System.nanoTime() + LIFETIME_MILLIS * 1_000_000;
    renewed(renewMillis);
  }

  void renewed(long renewMillis) {
    renewNanos = System.nanoTime() + renewMillis * 1_000_000;
  }

  boolean isOver() {
    return endNanos - System.nanoTime() <= 0;
  }

  boolean isDue() {
    return renewNanos - System.nanoTime() <= 0;
  }
}
