package org.suture.hdfs;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.datanode.BlockMetadataHeader;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.datanode.ReplicaAlreadyExistsException;
import org.apache.hadoop.hdfs.server.datanode.ReplicaHandler;
import org.apache.hadoop.hdfs.server.datanode.ReplicaInPipeline;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsDatasetSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.FsVolumeSpi;
import org.apache.hadoop.hdfs.server.datanode.fsdataset.ReplicaOutputStreams;
import org.apache.hadoop.util.DataChecksum;
import org.apache.hadoop.util.DiskChecker.DiskOutOfSpaceException;

/**
 * A rebuilt internal block on its way into the DataNode: temporary, written with its checksums,
 * synced, read back, finalized, told to the NameNode. Whatever ends it before that leaves nothing.
 *
 * Where the DataNode has a block of this name already nothing is written: the bytes that come are
 * summed, and are the same or not. Where they are, the NameNode is told of the block again.
 */
final class NewReplica {
  /** What is read back at a time, about. */
  private static final int BUFFER_BYTES = 128 * 1024;

  private final DataNode node;
  private final ExtendedBlock block;
  private final Replicas replicas;
  /** None where the block is there already. */
  private final ReplicaHandler handler;
  private ReplicaOutputStreams streams;
  /** What the checksums are written to, a few at a time. */
  private OutputStream sums;
  private final CRC32C whole = new CRC32C();
  /** Of the kind that this DataNode's configuration names, as clients' blocks have. */
  private final DataChecksum sum;
  private final byte[] lastSum;
  private long written;
  private int inSum;
  private IOException trouble;

  private NewReplica(DataNode node, Replicas replicas, ExtendedBlock block, ReplicaHandler handler,
      DataChecksum sum) throws IOException {
    this.node = node;
    this.replicas = replicas;
    this.block = block;
    this.handler = handler;
    this.sum = sum;
    lastSum = new byte[sum.getChecksumSize()];
    if (handler == null) {
      return;
    }
    boolean isBegun = false;
    try {
      streams = replica().createStreams(true, sum);
      sums = new BufferedOutputStream(streams.getChecksumOut());
      DataOutputStream header = new DataOutputStream(sums);
      BlockMetadataHeader.writeHeader(header, sum);
      header.flush();
      isBegun = true;
    } catch (IOException | RuntimeException e) {
      throw new ReplicaException(ReplicaException.FAILED, "it cannot be written", e);
    } finally {
      if (!isBegun) {
        abort();
      }
    }
  }

  static NewReplica begin(DataNode node, Replicas replicas, ExtendedBlock block, String type,
      String storage) throws IOException {
    // Before there is anything to be given up.
    DataChecksum sum = checksum(node.getConf());
    ReplicaHandler handler = null;
    try {
      // Of a volume that has room for its length.
      handler = node.getFSDataset()
          .createTemporary(StorageType.valueOf(type), storage, block, false);
    } catch (ReplicaAlreadyExistsException e) {
      if (replicas.find(block.getBlockPoolId(), block.getBlockId()) == null) {
        throw new ReplicaException(ReplicaException.FAILED, "it is being written", e);
      }
    } catch (DiskOutOfSpaceException e) {
      throw new ReplicaException(ReplicaException.NO_SPACE, "no room for it", e);
    } catch (IOException | IllegalArgumentException e) {
      throw new ReplicaException(ReplicaException.FAILED, "it cannot be begun", e);
    }
    return new NewReplica(node, replicas, block, handler, sum);
  }

  /** That of dfs.checksum.type and dfs.bytes-per-checksum; CRC32C where they name none. */
  static DataChecksum checksum(Configuration conf) {
    int step = conf.getInt("dfs.bytes-per-checksum", 512);
    DataChecksum.Type type = DataChecksum.Type.CRC32C;
    if ("CRC32".equals(conf.getTrimmed("dfs.checksum.type", ""))) {
      type = DataChecksum.Type.CRC32;
    }
    boolean isUsable = step > 0 && step <= CheckedBytes.STEP_MAX;
    return DataChecksum.newDataChecksum(type, isUsable ? step : 512);
  }

  private ReplicaInPipeline replica() {
    return handler.getReplica();
  }

  /** The next bytes. What goes wrong is said at the end. */
  void write(byte[] bytes, int count) {
    if (trouble != null) {
      return;
    }
    try {
      whole.update(bytes, 0, count);
      written += count;
      if (written > block.getNumBytes()) {
        throw new IOException("more bytes than the " + block.getNumBytes() + " that were said");
      }
      if (handler != null) {
        streams.getDataOut().write(bytes, 0, count);
        add(bytes, count);
      }
    } catch (IOException e) {
      trouble = e;
    }
  }

  private void add(byte[] bytes, int count) throws IOException {
    int step = sum.getBytesPerChecksum();
    for (int at = 0; at < count;) {
      int part = Math.min(step - inSum, count - at);
      sum.update(bytes, at, part);
      at += part;
      inSum += part;
      if (inSum == step) {
        endSum();
      }
    }
  }

  private void endSum() throws IOException {
    sum.writeValue(lastSum, 0, true);
    sums.write(lastSum);
    inSum = 0;
  }

  /** Whether the block is there now with these bytes; false: with others, which stay. */
  boolean finish(int crc) throws IOException {
    boolean isDone = false;
    try {
      if (trouble == null && written != block.getNumBytes()) {
        trouble = new IOException(written + " bytes came of " + block.getNumBytes());
      }
      if (trouble == null && (int) whole.getValue() != crc) {
        trouble = new IOException("other bytes came than were proven");
      }
      if (trouble != null) {
        throw trouble;
      }
      if (handler == null) {
        boolean isSame = isStored(crc);
        if (isSame) {
          tellAgain();
        }
        isDone = true;
        return isSame;
      }
      seal();
      readBack(crc);
      commit();
      isDone = true;
      return true;
    } catch (IOException | RuntimeException e) {
      throw new ReplicaException(ReplicaException.FAILED, "it was not committed", e);
    } finally {
      // Also where this Hadoop lacks something, or memory is short.
      if (!isDone) {
        abort();
      }
    }
  }

  private void seal() throws IOException {
    if (inSum > 0) {
      endSum();
    }
    sums.flush();
    streams.flushDataOut();
    streams.flushChecksumOut();
    streams.syncDataOut();
    streams.syncChecksumOut();
    replica().setNumBytes(written);
    replica().setBytesAcked(written);
    replica().setLastChecksumAndDataLen(written, lastSum);
    streams.close();
    streams = null;
  }

  /**
   * What the file system gives back is compared with its checksums and with what was proven. It was
   * synced, but most of it comes from memory: a disk that keeps other bytes is the scanner's to
   * find.
   */
  private void readBack(int crc) throws IOException {
    CRC32C found = new CRC32C();
    int step = sum.getBytesPerChecksum();
    try (InputStream data = replica().getReplicaInfo().getDataInputStream(0);
        DataInputStream stored = new DataInputStream(
            new BufferedInputStream(replica().getReplicaInfo().getMetadataInputStream(0)))) {
      stored.readFully(new byte[CheckedBytes.HEADER_BYTES]);
      byte[] buffer = new byte[step * Math.max(1, BUFFER_BYTES / step)];
      for (long left = block.getNumBytes(); left > 0;) {
        int count = data.readNBytes(buffer, 0, (int) Math.min(left, buffer.length));
        if (count == 0) {
          throw new IOException("it ends " + left + " bytes before its end");
        }
        for (int at = 0; at < count; at += step) {
          sum.reset();
          sum.update(buffer, at, Math.min(step, count - at));
          if ((int) sum.getValue() != stored.readInt()) {
            throw new IOException("it was read back with other bytes than were written");
          }
        }
        found.update(buffer, 0, count);
        left -= count;
      }
    }
    if ((int) found.getValue() != crc) {
      throw new IOException("it was read back with other bytes than were proven");
    }
  }

  private void commit() throws IOException {
    FsDatasetSpi<?> data = node.getFSDataset();
    boolean isTransient = replica().isOnTransientStorage();
    String storage = replica().getStorageUuid();
    try {
      data.finalizeBlock(block, true);
      handler.close();
    } catch (IOException | RuntimeException e) {
      // A folder may not have been synced of a block that is HDFS's by then.
      if (replicas.find(block.getBlockPoolId(), block.getBlockId()) == null) {
        throw e;
      }
      PluginLog.LOG.warn("Suture: {} is there, and may be gone after a crash: {}", block,
          PluginLog.reason(e));
    }
    node.notifyNamenodeReceivedBlock(block, "", storage, isTransient);
    PluginMetrics.get().committed();
    PluginLog.LOG.info("Suture: committed {} of {} bytes", block, written);
  }

  /** The NameNode may not have heard of it; where it has, that changes nothing. */
  private void tellAgain() {
    FsVolumeSpi volume = node.getFSDataset().getVolume(block);
    if (volume != null) {
      node.notifyNamenodeReceivedBlock(block, "", volume.getStorageID(),
          volume.isTransientStorage());
    }
  }

  private boolean isStored(int crc) throws IOException {
    Block found = replicas.stored(block.getBlockPoolId(), block.getBlockId());
    if (found.getNumBytes() != block.getNumBytes()
        || found.getGenerationStamp() != block.getGenerationStamp()) {
      return false;
    }
    CRC32C sum = new CRC32C();
    for (long at = 0; at < found.getNumBytes(); at += Frames.PAYLOAD_BYTES_MAX) {
      int count = (int) Math.min(Frames.PAYLOAD_BYTES_MAX, found.getNumBytes() - at);
      CheckedBytes bytes =
          replicas.read(block.getBlockPoolId(), block.getBlockId(), at, count);
      sum.update(bytes.bytes, bytes.from, count);
    }
    return (int) sum.getValue() == crc;
  }

  void abort() {
    if (handler == null) {
      return;
    }
    PluginMetrics.get().aborted();
    // Each by itself: what one of them lacks must not keep what the others give back.
    giveUp(() -> {
      if (streams != null) {
        streams.close();
        streams = null;
      }
    });
    // The volume has set aside room for the whole block, and keeps it so until it is told.
    giveUp(() -> replica().releaseAllBytesReserved());
    giveUp(() -> node.getFSDataset().unfinalizeBlock(block));
    giveUp(handler::close);
  }

  /** A step of giving up. */
  private interface Step {
    void run() throws IOException;
  }

  private void giveUp(Step step) {
    try {
      step.run();
    } catch (IOException | RuntimeException | LinkageError e) {
      PluginLog.LOG.warn("Suture: {} could not be given up: {}", block, PluginLog.reason(e));
    }
  }
}
