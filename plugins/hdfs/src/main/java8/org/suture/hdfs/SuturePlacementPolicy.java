package org.suture.hdfs;

import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.protocol.BlockStoragePolicy;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockPlacementPolicyRackFaultTolerant;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeStorageInfo;
import org.apache.hadoop.net.Node;

/**
 * HDFS's placement of erasure-coded blocks, which finds no target for a reconstruction while Suture
 * has a lease on it: HDFS then drops that work and asks again a few seconds later.
 *
 * Reconstruction is what asks with blocks that exist and wants only new ones; clients that write
 * never do. Whatever is unclear goes to HDFS: without a lease, with a file that is not served, and
 * after any error this is the policy that it extends.
 */
public class SuturePlacementPolicy extends BlockPlacementPolicyRackFaultTolerant {
  private static final DatanodeStorageInfo[] NOWHERE = new DatanodeStorageInfo[0];
  private static final ThreadLocal<Boolean> ASKED_BY_SUTURE = new ThreadLocal<>();
  private static volatile ServedFiles served = path -> false;

  /** Which files have a code that Suture serves. */
  interface ServedFiles {
    boolean has(String path);
  }

  static void serve(ServedFiles files) {
    served = files;
  }

  /** What HDFS would choose, whatever lease there is. */
  public static <T> T unvetoed(Supplier<T> choice) {
    ASKED_BY_SUTURE.set(Boolean.TRUE);
    try {
      return choice.get();
    } finally {
      ASKED_BY_SUTURE.remove();
    }
  }

  @Override
  public DatanodeStorageInfo[] chooseTarget(String path, int count, Node writer,
      List<DatanodeStorageInfo> chosen, boolean returnChosen, Set<Node> excluded, long blockBytes,
      BlockStoragePolicy storagePolicy, EnumSet<AddBlockFlag> flags) {
    boolean isReconstruction =
        chosen != null && !chosen.isEmpty() && !returnChosen && flags == null;
    if (isReconstruction && ASKED_BY_SUTURE.get() == null && isVetoed(path)) {
      PluginMetrics.get().vetoed();
      return NOWHERE;
    }
    return super.chooseTarget(path, count, writer, chosen, returnChosen, excluded, blockBytes,
        storagePolicy, flags);
  }

  private static boolean isVetoed(String path) {
    try {
      return Lease.covers(path) && served.has(path);
    } catch (RuntimeException | LinkageError e) {
      PluginLog.LOG.warn("Suture: HDFS repairs {} by itself: {}", path, e.toString());
      return false;
    }
  }
}
