package org.apache.hadoop.hdfs.server.blockmanagement;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.util.LightWeightLinkedSet;

/**
 * What Suture asks of the block manager that only its own package may ask. No patch is needed for
 * that: packages of the plain class path are open to whoever is in them.
 *
 * The caller holds the namesystem's lock: for reading in {@link Walk} and where something is only
 * asked, else for writing.
 */
public final class SutureBlocks {
  private SutureBlocks() {
  }

  /**
   * A walk over everything that has too few internal blocks or replicas, which is left and gone on
   * with.
   *
   * The queues may hold millions of replicated blocks after a rack is lost, and an iterator of
   * theirs ends at the first change. So the walk keeps its place in the lists that the queues are:
   * an element that was taken out still leads to those behind it. At its end a queue is begun
   * again.
   */
  public static final class Walk {
    private static final Field QUEUES = field(LowRedundancyBlocks.class, "priorityQueues");
    private static final Field HEAD = field(LightWeightLinkedSet.class, "head");
    private static final Class<?> ELEMENT = part(LightWeightLinkedSet.class, "DoubleLinkedElement");
    private static final Field BEHIND = field(ELEMENT, "after");
    private static final Field BLOCK = field(ELEMENT.getSuperclass(), "element");

    private final LowRedundancyBlocks needed;
    private final Object[] places = new Object[LowRedundancyBlocks.LEVEL];

    public Walk(BlockManager manager) {
      this(manager.neededReconstruction);
    }

    Walk(LowRedundancyBlocks needed) {
      this.needed = needed;
    }

    /**
     * Begins again. While nobody walks on, elements that are taken out of a queue still lead to
     * those behind them, so that a place that is kept keeps them all in memory.
     */
    public void restart() {
      Arrays.fill(places, null);
    }

    /** Shows the next so many of each queue, with the number of that; 0 is what is most at risk. */
    public void next(int count, BiConsumer<BlockInfo, Integer> each) {
      try {
        synchronized (needed) {
          List<?> queues = (List<?>) QUEUES.get(needed);
          for (int level = 0; level < places.length; level++) {
            Object at = places[level] == null ? HEAD.get(queues.get(level)) : places[level];
            for (int i = 0; i < count && at != null; i++) {
              each.accept((BlockInfo) BLOCK.get(at), level);
              at = BEHIND.get(at);
            }
            places[level] = at;
          }
        }
      } catch (IllegalAccessException e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** Whether it waits for the NameNode to have something of it built. */
  public static boolean isQueued(BlockManager manager, BlockInfo block) {
    return manager.neededReconstruction.contains(block);
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
    // A NameNode that is not the active one any more has no queue.
    if (manager.isPopulatingReplQueues() && manager.isNeededReconstruction(block, found)) {
      manager.neededReconstruction.add(block, found.liveReplicas(), found.readOnlyReplicas(),
          found.outOfServiceReplicas(), manager.getExpectedRedundancyNum(block));
    }
  }

  /** Whether the disk of a storage has failed. */
  public static boolean isFailed(DatanodeStorageInfo storage) {
    return storage.getState() == DatanodeStorage.State.FAILED;
  }

  /** Whether the node's replica was ordered away as one too many: HDFS counts it no more. */
  public static boolean isExcess(BlockManager manager, DatanodeDescriptor node, BlockInfo block) {
    return manager.isExcess(node, block);
  }

  /**
   * Has HDFS count a replica of an internal block as corrupt, as if its DataNode had reported it:
   * it is read no more, and removed once the block is there anew.
   */
  public static void condemn(BlockManager manager, String pool, BlockInfoStriped group, int index,
      DatanodeStorageInfo storage, String why) {
    Block replica = new Block(group.getBlockId() + index, 0, group.getGenerationStamp());
    try {
      manager.findAndMarkBlockAsCorrupt(new ExtendedBlock(pool, replica),
          storage.getDatanodeDescriptor(), storage.getStorageID(), why);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Finds out at the start, not at the first failure, whether all of that is there. */
  public static void selfTest(BlockManager manager) {
    need(PendingReconstructionBlocks.class, "increment", BlockInfo.class,
        DatanodeStorageInfo[].class);
    need(PendingReconstructionBlocks.class, "decrement", BlockInfo.class,
        DatanodeStorageInfo.class);
    need(PendingReconstructionBlocks.class, "getNumReplicas", BlockInfo.class);
    need(LowRedundancyBlocks.class, "add", BlockInfo.class, int.class, int.class, int.class,
        int.class);
    need(LowRedundancyBlocks.class, "contains", BlockInfo.class);
    need(BlockManager.class, "isNeededReconstruction", BlockInfo.class, NumberReplicas.class);
    need(BlockManager.class, "isPopulatingReplQueues");
    need(BlockManager.class, "countNodes", BlockInfo.class);
    need(BlockManager.class, "getExpectedRedundancyNum", BlockInfo.class);
    need(BlockManager.class, "isExcess", DatanodeDescriptor.class, BlockInfo.class);
    need(BlockManager.class, "findAndMarkBlockAsCorrupt", ExtendedBlock.class, DatanodeInfo.class,
        String.class, String.class);
    need(DatanodeStorageInfo.class, "getState");
    need(BlockInfoStriped.class, "getStorageAndIndexInfos");
    need(BlockInfoStriped.class, "getRealTotalBlockNum");
    manager.neededReconstruction.size();
    manager.pendingReconstruction.size();
    new Walk(manager).next(1, (block, level) -> { });
  }

  private static void need(Class<?> in, String name, Class<?>... of) {
    try {
      in.getDeclaredMethod(name, of);
    } catch (NoSuchMethodException e) {
      throw missing(in, name);
    }
  }

  private static Field field(Class<?> in, String name) {
    try {
      Field field = in.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    } catch (NoSuchFieldException e) {
      throw missing(in, name);
    }
  }

  private static Class<?> part(Class<?> of, String name) {
    for (Class<?> part : of.getDeclaredClasses()) {
      if (part.getSimpleName().equals(name)) {
        return part;
      }
    }
    throw missing(of, name);
  }

  private static IllegalStateException missing(Class<?> in, String name) {
    return new IllegalStateException("this Hadoop has no " + in.getSimpleName() + "." + name);
  }
}
