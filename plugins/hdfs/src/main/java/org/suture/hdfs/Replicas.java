package org.suture.hdfs;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.BlockListAsLongs;
import org.apache.hadoop.hdfs.protocol.BlockLocalPathInfo;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.common.HdfsServerConstants.ReplicaState;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;

/** The internal blocks of one DataNode: which there are, their checked bytes, and new ones. */
final class Replicas {
  private final DataNode node;

  Replicas(DataNode node) {
    this.node = node;
  }

  private FsDatasetSpi<?> data() throws ReplicaException {
    FsDatasetSpi<?> data = node.getFSDataset();
    if (data == null) {
      throw new ReplicaException(ReplicaException.FAILED, "this DataNode has no data yet");
    }
    return data;
  }

  /** Which DataNode it is, and of which block pools it has blocks. */
  Message describe() throws IOException {
    Set<Object> pools = new LinkedHashSet<>();
    try (FsDatasetSpi.FsVolumeReferences volumes = data().getFsVolumeReferences()) {
      for (FsVolumeSpi volume : volumes) {
        pools.addAll(Arrays.asList(volume.getBlockPoolList()));
      }
    }
    return Message.empty().with("node", node.getDatanodeUuid())
        .with("name", node.getDatanodeId().getHostName() + ":" + node.getDatanodeId().getXferPort())
        .with("pools", new ArrayList<>(pools));
  }

  long freeBytes() throws IOException {
    long free = 0;
    try (FsDatasetSpi.FsVolumeReferences volumes = data().getFsVolumeReferences()) {
      for (FsVolumeSpi volume : volumes) {
        free += Math.max(volume.getAvailable(), 0);
      }
    }
    return free;
  }

  /** Takes blocks one by one; each is valid until the next. */
  interface Blocks {
    void take(Block block) throws IOException;
  }

  /** All finalized internal blocks of groups, from the DataNode's own compact report. */
  void list(String pool, Blocks blocks) throws IOException {
    for (BlockListAsLongs volume : data().getBlockReports(pool).values()) {
      for (BlockListAsLongs.BlockReportReplica replica : volume) {
        // Ids of groups and their blocks are negative.
        if (replica.getBlockId() < 0 && replica.getState() == ReplicaState.FINALIZED) {
          blocks.take(replica);
        }
      }
    }
  }

  Message locate(String pool, long block) throws IOException {
    Block found = stored(pool, block);
    return Message.empty().with("stamp", found.getGenerationStamp())
        .with("bytes", found.getNumBytes());
  }

  CheckedBytes read(String pool, long block, long from, int count) throws IOException {
    Block found = stored(pool, block);
    ExtendedBlock named = new ExtendedBlock(pool, found);
    if (from + count > found.getNumBytes()) {
      // Nothing that is said of it here shows it to be corrupt.
      throw new ReplicaException(ReplicaException.UNREADABLE,
          "it has " + found.getNumBytes() + " bytes, and " + (from + count) + " are wanted");
    }
    try {
      return readFiles(named, found.getNumBytes(), from, count);
    } catch (ReplicaException e) {
      if (e.kind.equals(ReplicaException.CORRUPT)) {
        reportBad(named, "is corrupt", e);
      }
      throw e;
    } catch (ReplicaNotFoundException e) {
      throw new ReplicaException(ReplicaException.MISSING, "no such replica", e);
    } catch (FileNotFoundException e) {
      // A process with too many files open is told so by the same exception.
      boolean isGone = says(e, "No such file");
      throw new ReplicaException(isGone ? ReplicaException.MISSING : ReplicaException.UNREADABLE,
          isGone ? "no such replica" : "it cannot be opened", e);
    } catch (IOException e) {
      if (says(e, "Input/output error")) {
        reportBad(named, "cannot be read", e);
        checkDisk(named);
      }
      throw new ReplicaException(ReplicaException.UNREADABLE, "it cannot be read", e);
    }
  }

  /** From where its files are; HDFS moves them between disks. */
  private CheckedBytes readFiles(ExtendedBlock block, long length, long from, int count)
      throws IOException {
    for (boolean isLast = false; ; isLast = true) {
      BlockLocalPathInfo paths = data().getBlockLocalPathInfo(block);
      try {
        return CheckedBytes.read(new File(paths.getBlockPath()), new File(paths.getMetaPath()),
            length, from, count);
      } catch (FileNotFoundException e) {
        if (isLast) {
          throw e;
        }
      }
    }
  }

  /** Whether the system's word for what went wrong is this one. */
  private static boolean says(IOException error, String what) {
    return String.valueOf(error.getMessage()).contains(what);
  }

  /** Has the DataNode look whether the disk of a block has failed as a whole. */
  private void checkDisk(ExtendedBlock block) throws IOException {
    FsVolumeSpi disk = data().getVolume(block);
    if (disk != null) {
      node.checkDiskErrorAsync(disk);
    }
  }

  /**
   * HDFS must know, whatever Suture does about it. Its own scanner reports what a disk cannot read
   * in the same way as what fails its checksums.
   */
  private void reportBad(ExtendedBlock block, String what, IOException why) {
    PluginMetrics.get().corrupt();
    PluginLog.LOG.warn("Suture: {} {} and reported so: {}", block, what, PluginLog.reason(why));
    try {
      node.reportBadBlocks(block);
    } catch (IOException e) {
      PluginLog.LOG.warn("Suture: {} could not be reported: {}", block, PluginLog.reason(e));
    }
  }

  NewReplica begin(Message request) throws IOException {
    ExtendedBlock block = new ExtendedBlock(request.text("pool"), request.number("block"),
        request.number("bytes", 1, Long.MAX_VALUE), request.number("stamp", 0, Long.MAX_VALUE));
    if (block.getBlockId() >= 0) {
      throw new ReplicaException(ReplicaException.FAILED, block + " is no block of a group");
    }
    String type = request.has("type") ? request.text("type") : "DISK";
    String storage = request.has("storage") ? request.text("storage") : null;
    return NewReplica.begin(node, this, block, type, storage);
  }

  /** The finalized replica of this id, whatever its generation stamp. */
  Block stored(String pool, long block) throws IOException {
    Block found = find(pool, block);
    if (found == null) {
      throw new ReplicaException(ReplicaException.MISSING, "no such replica");
    }
    return found;
  }

  /** As {@link #stored}; null where there is none, or it is being written. */
  Block find(String pool, long block) throws IOException {
    try {
      Block found = data().getStoredBlock(pool, block);
      boolean isFinal =
          found != null && data().isValidBlock(new ExtendedBlock(pool, new Block(found)));
      return isFinal ? found : null;
    } catch (ReplicaNotFoundException e) {
      // As Hadoop 3.5 says it.
      return null;
    }
  }
}
