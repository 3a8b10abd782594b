package org.suture.hdfs;

import java.util.Collections;
import java.util.Set;

/**
 * For how long HDFS leaves lost internal blocks to Suture.
 *
 * It is given for seconds at a time and ends by itself, so whatever ends the coordinator or cuts it
 * off has HDFS rebuild by itself. Whether a coordinator that still says so can repair is not known
 * here: that is for the coordinator to judge each time that it asks. The placement policy and the
 * plugin are made by different parts of the NameNode and meet here; a process has one NameNode.
 * Compiled for the entries, see {@link Entries}.
 */
final class Lease {
  /** Longer leases would keep HDFS from repairing for longer than anybody should wait. */
  static final long MILLIS_MAX = 60_000;

  private static final Lease NONE = new Lease(Long.MIN_VALUE, Collections.emptySet());
  private static volatile Lease current = NONE;

  private final long endNanos;
  private final Set<String> left;

  private Lease(long endNanos, Set<String> left) {
    this.endNanos = endNanos;
    this.left = left;
  }

  /** From now on for so long, but for the files that are left to HDFS. */
  static void renew(long millis, Set<String> left) {
    long span = Math.min(millis, MILLIS_MAX) * 1_000_000;
    current = new Lease(System.nanoTime() + span, left);
  }

  static void end() {
    current = NONE;
  }

  static boolean isHeld() {
    Lease lease = current;
    return lease != NONE && lease.endNanos - System.nanoTime() > 0;
  }

  /** For how long it still lasts; 0 where there is none. */
  static long millisLeft() {
    Lease lease = current;
    return lease == NONE ? 0 : Math.max((lease.endNanos - System.nanoTime()) / 1_000_000, 0);
  }

  /** Whether the groups of this file are Suture's to rebuild. */
  static boolean covers(String path) {
    Lease lease = current;
    return isHeld() && !lease.left.contains(path);
  }
}
