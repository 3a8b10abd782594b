package org.suture.hdfs;

import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockPlacementPolicy;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.util.ServicePlugin;
import org.apache.hadoop.util.VersionInfo;

/**
 * Suture's end in the NameNode: what {@code dfs.namenode.plugins} names.
 *
 * It tests at its start whether everything that it needs is there. If not it says so in one line,
 * shows it in the gauge {@code State}, and does nothing: HDFS works as if it were absent.
 */
public final class NameNodePlugin implements ServicePlugin {
  /** Releases whose internals this plugin knows. */
  private static final Pattern KNOWN = Pattern.compile("3\\.[345]\\..*");

  private NameNodeSession session;

  @Override
  public void start(Object service) {
    try {
      PluginMetrics.get().state(PluginMetrics.OFF);
      session = test((NameNode) service);
      session.start();
      PluginLog.LOG.info("Suture: on; repairs are offered to {}", session);
    } catch (Exception | LinkageError e) {
      PluginLog.LOG.error("Suture: off, HDFS repairs as without it: {}", PluginLog.reason(e));
    }
  }

  /** What serves the coordinator, if all that it needs is there. */
  private static NameNodeSession test(NameNode node) throws Exception {
    Configuration conf = node.getConf();
    String version = VersionInfo.getVersion();
    if (!KNOWN.matcher(version).matches()) {
      throw new IllegalStateException(
          "this is Hadoop " + version + ", and the plugin knows 3.3, 3.4 and 3.5");
    }
    NameNodeSettings settings = NameNodeSettings.of(conf);
    Namespace namespace = new Namespace(node.getNamesystem());
    namespace.selfTest();
    BlockPlacementPolicy policy = namespace.placementPolicy();
    if (!(policy instanceof SuturePlacementPolicy)) {
      throw new IllegalStateException("dfs.block.placement.ec.classname is "
          + policy.getClass().getName() + ": set it to " + SuturePlacementPolicy.class.getName());
    }
    SuturePlacementPolicy.serve(namespace::isServed);
    return new NameNodeSession(settings, node, namespace);
  }

  @Override
  public void stop() {
    Lease.end();
    if (session != null) {
      session.stop();
    }
  }

  @Override
  public void close() {
    stop();
  }
}
