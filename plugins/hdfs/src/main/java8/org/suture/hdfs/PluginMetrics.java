package org.suture.hdfs;

import org.apache.hadoop.metrics2.annotation.Metric;
import org.apache.hadoop.metrics2.annotation.Metrics;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.MutableCounterLong;
import org.apache.hadoop.metrics2.lib.MutableGaugeInt;
import org.apache.hadoop.metrics2.lib.MutableGaugeLong;

/** What the plugin counts, beside the daemon's own metrics: {@code SutureHdfs}. */
@Metrics(name = "SutureHdfs", about = "Suture's plugin", context = "dfs")
public final class PluginMetrics {
  /** States of the gauge {@code State}. */
  public static final int OFF = 0;
  public static final int WAITING = 1;
  public static final int SERVING = 2;

  private static PluginMetrics registered;

  @Metric("0: off, HDFS works as without the plugin; 1: waits for the other end, or for this"
      + " NameNode to become the active one; 2: serves")
  MutableGaugeInt state;
  @Metric("Reconstructions that HDFS left to Suture")
  MutableCounterLong vetoes;
  @Metric("Block groups that Suture has claimed")
  MutableCounterLong claims;
  @Metric("Claims that were refused")
  MutableCounterLong claimsRefused;
  @Metric("Most claims that were judged at once, under one hold of the namesystem's lock")
  MutableGaugeLong claimBatchMax;
  @Metric("Longest time in microseconds for which claims held the namesystem's lock for writing")
  MutableGaugeLong claimLockMicrosMax;
  @Metric("Longest time in microseconds for which the namesystem's lock was held for reading")
  MutableGaugeLong groupsLockMicrosMax;
  @Metric("Rebuilt internal blocks that were committed here")
  MutableCounterLong committedBlocks;
  @Metric("Rebuilt internal blocks that were begun here and given up")
  MutableCounterLong abortedBlocks;
  @Metric("Replicas that were read and found corrupt")
  MutableCounterLong corruptReplicas;
  @Metric("Bytes that were read for repairs")
  MutableCounterLong readBytes;

  private PluginMetrics() {
  }

  /** The daemon's only ones. */
  public static synchronized PluginMetrics get() {
    if (registered == null) {
      PluginMetrics metrics = new PluginMetrics();
      registered = DefaultMetricsSystem.instance()
          .register("SutureHdfs", "Suture's plugin", metrics);
    }
    return registered;
  }

  /** 0 where HDFS repairs by itself. */
  @Metric("Milliseconds for which HDFS still leaves what is lost to Suture")
  public long getLeaseMillis() {
    return Lease.millisLeft();
  }

  void state(int value) {
    state.set(value);
  }

  void vetoed() {
    vetoes.incr();
  }

  /** A batch of claims was judged. */
  void claimed(int granted, int refused) {
    claims.incr(granted);
    claimsRefused.incr(refused);
    raise(claimBatchMax, granted + refused);
  }

  /** The lock was held for writing, by a batch of claims or for one of them. */
  void heldForWriting(long micros) {
    raise(claimLockMicrosMax, micros);
  }

  /** The lock was held for reading: a part of the groups at risk, or less. */
  void heldForReading(long micros) {
    raise(groupsLockMicrosMax, micros);
  }

  private static void raise(MutableGaugeLong gauge, long value) {
    synchronized (gauge) {
      if (value > gauge.value()) {
        gauge.set(value);
      }
    }
  }

  void committed() {
    committedBlocks.incr();
  }

  void aborted() {
    abortedBlocks.incr();
  }

  void corrupt() {
    corruptReplicas.incr();
  }

  void read(long bytes) {
    readBytes.incr(bytes);
  }
}
