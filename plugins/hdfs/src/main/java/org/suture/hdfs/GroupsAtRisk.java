package org.suture.hdfs;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfo;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.SutureBlocks;

/**
 * The groups that lack something, and what the coordinator knows of each, so that only changes are
 * sent.
 *
 * The NameNode's queues are walked a part at a time, and what was found is looked at again a part
 * at a time, so the lock is never held for long, whatever is in the queues. Groups that lack
 * nothing but a better place are not told of: HDFS moves them by itself.
 */
final class GroupsAtRisk {
  /** Groups that the coordinator is told of; the others follow as these are rebuilt. */
  static final int GROUPS_MAX = 8192;
  /** Groups described in one answer. */
  private static final int DESCRIBED_MAX = 500;
  /** What they take at most, of a frame of {@link Frames#JSON_BYTES_MAX}. */
  private static final long DESCRIBED_BYTES_MAX = 2 << 20;
  /** Entries of each queue that are walked under one hold of the lock. */
  static final int WALKED_MAX = 4_000;
  /** Groups that are looked at under one hold of the lock. */
  private static final int REVIEWED_MAX = 500;

  private final BlockManager blocks;
  private final NamesystemLock lock;
  private final GroupView view;
  private final SutureBlocks.Walk walk;
  /** Groups that were found in the queues. */
  private final RiskOrder found = new RiskOrder(GROUPS_MAX);
  private final Map<Long, Long> known = new HashMap<>();
  /**
   * Paths of those that were told and whose files only snapshots keep: whoever asks by a path finds
   * nothing there. Another thread reads it.
   */
  private volatile Set<String> unnamed = Set.of();

  GroupsAtRisk(BlockManager blocks, NamesystemLock lock, GroupView view) {
    this.blocks = blocks;
    this.lock = lock;
    this.view = view;
    walk = new SutureBlocks.Walk(blocks);
  }

  /**
   * The coordinator knows nothing yet. The walk begins again: the place where it stands keeps all
   * that was behind it alive, and leads through that first.
   */
  void forget() {
    known.clear();
    unnamed = Set.of();
    walk.restart();
  }

  /** Whether a group was told of whose file had this path before only a snapshot kept it. */
  boolean isUnnamed(String path) {
    return unnamed.contains(path);
  }

  /** What is other than was last told, of these claimed groups and of those at risk. */
  Message changes(Set<Long> claimed) {
    lock.read(() -> {
      walk.next(WALKED_MAX, this::find);
      return null;
    });
    Set<Long> asked = new LinkedHashSet<>(claimed);
    asked.addAll(found.groups());
    Report report = new Report();
    for (Iterator<Long> ids = asked.iterator(); ids.hasNext();) {
      lock.read(() -> {
        for (int i = 0; i < REVIEWED_MAX && ids.hasNext(); i++) {
          long id = ids.next();
          review(id, claimed.contains(id), report);
        }
        return null;
      });
    }
    List<Object> gone = new ArrayList<>();
    for (Iterator<Long> ids = known.keySet().iterator(); ids.hasNext();) {
      Long id = ids.next();
      if (!report.present.contains(id)) {
        gone.add(id);
        ids.remove();
      }
    }
    unnamed = Set.copyOf(report.unnamed);
    return Message.empty().withAll("groups", report.changed).with("gone", gone)
        .with("more", report.hasMore);
  }

  /** What is told in one answer. */
  private static final class Report {
    final List<Message> changed = new ArrayList<>();
    final Set<Long> present = new HashSet<>();
    final Set<String> unnamed = new HashSet<>();
    long bytes;
    boolean hasMore;
  }

  private void find(BlockInfo block, int queue) {
    if (block.isStriped() && isServed((BlockInfoStriped) block)) {
      found.put(block.getBlockId(), queue);
    }
  }

  private static boolean isServed(BlockInfoStriped group) {
    return group.isComplete() && !group.isDeleted() && GroupView.isServed(group);
  }

  private void review(long id, boolean isClaimed, Report report) {
    BlockInfoStriped group = view.stored(id);
    boolean isQueued = group != null && isServed(group) && SutureBlocks.isQueued(blocks, group);
    if (!isQueued) {
      found.remove(id);
    }
    // A claimed one has left the queue.
    if (group == null || !isClaimed && (!isQueued || view.isWhole(group))) {
      return;
    }
    report.present.add(id);
    if (!view.isNamed(group)) {
      report.unnamed.add(view.path(group));
    }
    long state = view.fingerprint(group);
    Long before = known.get(id);
    if (before != null && before == state) {
      return;
    }
    if (report.changed.size() == DESCRIBED_MAX || report.bytes > DESCRIBED_BYTES_MAX) {
      report.hasMore = true;
      return;
    }
    report.changed.add(view.describe(group));
    report.bytes += view.describedBytesMax(group);
    known.put(id, state);
  }
}
