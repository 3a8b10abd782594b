package org.suture.hdfs;

import org.apache.hadoop.hdfs.server.blockmanagement.BlockPlacementPolicy;
import org.apache.hadoop.hdfs.server.namenode.NameNode;

/** The plugin of the NameNode. It tests at its start whether everything that it needs is there. */
final class NameNodePart implements PluginPart {
  private NameNodeSession session;

  @Override
  public void start(Object service) throws Exception {
    HadoopRelease.check();
    NameNode node = (NameNode) service;
    NameNodeSettings settings = NameNodeSettings.of(node.getConf());
    Namespace namespace = new Namespace(node.getNamesystem(), node::isActiveState,
        settings.renewMillis);
    namespace.selfTest();
    BlockPlacementPolicy policy = namespace.placementPolicy();
    if (!(policy instanceof SuturePlacementPolicy)) {
      throw new IllegalStateException("dfs.block.placement.ec.classname is "
          + policy.getClass().getName() + ": set it to " + SuturePlacementPolicy.class.getName());
    }
    SuturePlacementPolicy.serve(namespace::isLacking);
    session = new NameNodeSession(settings, namespace);
    session.start();
    PluginLog.LOG.info("Suture: on; repairs are offered to {}", session);
  }

  @Override
  public void stop() {
    if (session != null) {
      session.stop();
    }
  }
}
