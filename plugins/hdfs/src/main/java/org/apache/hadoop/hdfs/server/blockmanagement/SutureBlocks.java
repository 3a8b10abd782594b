package org.apache.hadoop.hdfs.server.blockmanagement;

import java.util.Iterator;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;

/**
 * What Suture asks of the block manager that only its own package may ask. No patch is needed for
 * that: packages of the plain class path are open to whoever is in them.
 *
 * The caller holds the namesystem's lock: for reading in {@link #lowRedundancy}, else for writing.
 */
public final class SutureBlocks {
  private SutureBlocks() {
  }

  /** Everything that has too few internal blocks or replicas, what is most at risk first. */
  public static Iterator<BlockInfo> lowRedundancy(BlockManager manager) {
    return manager.neededReconstruction.iterator();
  }

  /** Has the NameNode count these as being built: it builds none in their place. */
  public static void claim(BlockManager manager, BlockInfo block, DatanodeStorageInfo... targets) {
    manager.pendingReconstruction.increment(block, targets);
  }

  /** Whether somebody builds something of it. */
  public static boolean isPending(BlockManager manager, BlockInfo block) {
    return manager.pendingReconstruction.getNumReplicas(block) > 0;
  }

  /** Takes a claim back, and what it kept out of the queue goes into it again. */
  public static void release(BlockManager manager, BlockInfo block, DatanodeStorageInfo... targets) {
    for (DatanodeStorageInfo target : targets) {
      // What has arrived meanwhile was taken off then.
      if (isPending(manager, block)) {
        manager.pendingReconstruction.decrement(block, target);
      }
    }
    NumberReplicas found = manager.countNodes(block);
    if (manager.isNeededReconstruction(block, found)) {
      manager.neededReconstruction.add(block, found.liveReplicas(), found.readOnlyReplicas(),
          found.outOfServiceReplicas(), manager.getExpectedRedundancyNum(block));
    }
  }

  /** Whether the disk of a storage has failed. */
  public static boolean isFailed(DatanodeStorageInfo storage) {
    return storage.getState() == DatanodeStorage.State.FAILED;
  }

  /** Finds out at the start, not at the first failure, whether all of that is there. */
  public static void selfTest(BlockManager manager) {
    for (String method : new String[] {"increment", "decrement", "getNumReplicas"}) {
      need(PendingReconstructionBlocks.class, method);
    }
    need(LowRedundancyBlocks.class, "add");
    need(LowRedundancyBlocks.class, "iterator");
    need(BlockManager.class, "isNeededReconstruction");
    need(BlockManager.class, "countNodes");
    need(DatanodeStorageInfo.class, "getState");
    need(BlockInfoStriped.class, "getStorageAndIndexInfos");
    manager.neededReconstruction.size();
    manager.pendingReconstruction.size();
  }

  private static void need(Class<?> in, String name) {
    for (java.lang.reflect.Method method : in.getDeclaredMethods()) {
      if (method.getName().equals(name)) {
        return;
      }
    }
    throw new IllegalStateException("this Hadoop has no " + in.getSimpleName() + "." + name);
  }
}
