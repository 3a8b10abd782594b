package org.suture.hdfs;

import org.apache.hadoop.util.ServicePlugin;

/**
 * Suture's end in the NameNode: what {@code dfs.namenode.plugins} names.
 *
 * Where something that it needs is not there it says so in one line, shows it in the gauge
 * {@code State}, and does nothing: HDFS works as if it were absent. It is an entry, see
 * {@link Entries}: what it does is in {@code NameNodePart}.
 */
public final class NameNodePlugin implements ServicePlugin {
  private PluginPart part;

  @Override
  public void start(Object service) {
    try {
      PluginMetrics.get().state(PluginMetrics.OFF);
      part = Entries.load(PluginPart.class, "org.suture.hdfs.NameNodePart");
      part.start(service);
    } catch (Exception | LinkageError e) {
      PluginLog.LOG.error("Suture: off, HDFS repairs as without it: {}", PluginLog.reason(e));
    }
  }

  @Override
  public void stop() {
    Lease.end();
    if (part != null) {
      part.stop();
    }
  }

  @Override
  public void close() {
    stop();
  }
}
