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
 * never do. HDFS asks in the same way where no block is missing and all lie on too few racks;
 * Suture rebuilds what is missing, so that is HDFS's to mend, lease or not. Whatever is unclear
 * goes to HDFS: without a lease, with a file that is not served, and after any error this is the
 * policy that it extends. It is an entry, see {@link Entries}.
 */
public class SuturePlacementPolicy extends BlockPlacementPolicyRackFaultTolerant {
  private static final DatanodeStorageInfo[] NOWHERE = new DatanodeStorageInfo[0];
  private static final ThreadLocal<Boolean> ASKED_BY_SUTURE = new ThreadLocal<>();
  private static volatile LackingGroups lacking = (path, live, bytes) -> false;

  /** Which groups Suture would rebuild something of. */
  interface LackingGroups {
    /** Whether a group of this file lacks blocks, if it has so many bytes and live blocks. */
    boolean has(String path, int live, long bytes);
  }

  static void serve(LackingGroups groups) {
    lacking = groups;
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
    if (isReconstruction && ASKED_BY_SUTURE.get() == null
        && isVetoed(path, chosen.size(), blockBytes)) {
      return NOWHERE;
    }
    return super.chooseTarget(path, count, writer, chosen, returnChosen, excluded, blockBytes,
        storagePolicy, flags);
  }

  /**
   * For a reconstruction HDFS says the live blocks of the group and how many bytes all of it has.
   * Of a block that is there twice it says both: then HDFS may be let rebuild another, if Suture
   * has not claimed that.
   */
  private static boolean isVetoed(String path, int live, long groupBytes) {
    try {
      boolean isVetoed = Lease.covers(path) && lacking.has(path, live, groupBytes);
      if (isVetoed) {
        PluginMetrics.get().vetoed();
      }
      return isVetoed;
    } catch (RuntimeException | LinkageError e) {
      PluginLog.LOG.warn("Suture: HDFS repairs {} by itself: {}", path, e.toString());
      return false;
    }
  }
}
