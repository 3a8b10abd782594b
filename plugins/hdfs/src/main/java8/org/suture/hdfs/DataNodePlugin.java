package org.suture.hdfs;

import org.apache.hadoop.util.ServicePlugin;

/**
 * Suture's end in a DataNode: what {@code dfs.datanode.plugins} names.
 *
 * What it lacks it says in one line, and then does nothing. It is an entry, see {@link Entries}:
 * what it does is in {@code DataNodePart}.
 */
public final class DataNodePlugin implements ServicePlugin {
  private PluginPart part;

  @Override
  public void start(Object service) {
    try {
      PluginMetrics.get().state(PluginMetrics.OFF);
      part = Entries.load(PluginPart.class, "org.suture.hdfs.DataNodePart");
      part.start(service);
    } catch (Exception | LinkageError e) {
      PluginLog.LOG.error("Suture: off, this DataNode works as without it: {}",
          PluginLog.reason(e));
    }
  }

  @Override
  public void stop() {
    if (part != null) {
      part.stop();
    }
  }

  @Override
  public void close() {
    stop();
  }
}
