package org.suture.hdfs;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * So many groups at most, what is most at risk first: those are in the first of the NameNode's
 * queues.
 */
final class RiskOrder {
  private final int max;
  private final List<Set<Long>> queues = new ArrayList<>();

  RiskOrder(int max) {
    this.max = max;
  }

  /** Takes a group, in place of one that is less at risk where there are too many. */
  void put(long group, int queue) {
    while (queues.size() <= queue) {
      queues.add(new LinkedHashSet<>());
    }
    Set<Long> own = queues.get(queue);
    if (own.contains(group)) {
      return;
    }
    remove(group);
    int all = queues.stream().mapToInt(Set::size).sum();
    if (all < max || makeRoom(queue)) {
      own.add(group);
    }
  }

  /** Leaves out a group that is less at risk than those of this queue, if there is any. */
  private boolean makeRoom(int queue) {
    for (int last = queues.size() - 1; last > queue; last--) {
      Iterator<Long> groups = queues.get(last).iterator();
      if (groups.hasNext()) {
        groups.next();
        groups.remove();
        return true;
      }
    }
    return false;
  }

  void remove(long group) {
    queues.forEach(groups -> groups.remove(group));
  }

  /** All of them, as they are at this time. */
  List<Long> groups() {
    List<Long> all = new ArrayList<>();
    queues.forEach(all::addAll);
    return all;
  }
}
