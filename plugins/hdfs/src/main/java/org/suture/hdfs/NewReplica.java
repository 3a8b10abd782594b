package org.suture.hdfs;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;
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
  private static final int STEP = 512;

  private final DataNode node;
  private final ExtendedBlock block;
  private final Replicas replicas;
  /** None where the block is there already. */
  private final ReplicaHandler handler;
  private ReplicaOutputStreams streams;
  private final CRC32C whole = new CRC32C();
  private final CRC32C sum = new CRC32C();
  private final ByteBuffer lastSum = ByteBuffer.allocate(4);
  private long written;
  private int inSum;
  private IOException trouble;

  private NewReplica(DataNode node, Replicas replicas, ExtendedBlock block, ReplicaHandler handler)
      throws IOException {
    this.node = node;
    this.replicas = replicas;
    this.block = block;
    this.handler = handler;
    if (handler == null) {
      return;
    }
    boolean isBegun = false;
    try {
      DataChecksum checksum = DataChecksum.newDataChecksum(DataChecksum.Type.CRC32C, STEP);
      streams = replica().createStreams(true, checksum);
      BlockMetadataHeader.writeHeader(new DataOutputStream(streams.getChecksumOut()), checksum);
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
    return new NewReplica(node, replicas, block, handler);
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
        sum(bytes, count);
      }
    } catch (IOException e) {
      trouble = e;
    }
  }

  private void sum(byte[] bytes, int count) throws IOException {
    OutputStream out = streams.getChecksumOut();
    for (int at = 0; at < count;) {
      int part = Math.min(STEP - inSum, count - at);
      sum.update(bytes, at, part);
      at += part;
      inSum += part;
      if (inSum == STEP) {
        endSum(out);
      }
    }
  }

  private void endSum(OutputStream out) throws IOException {
    lastSum.putInt(0, (int) sum.getValue());
    out.write(lastSum.array());
    sum.reset();
    inSum = 0;
  }

  /** Whether the block is there now with these bytes; false: with others, which stay. */
  boolean finish(int crc) throws IOException {
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
        return isSame;
      }
      seal();
      readBack(crc);
      commit();
      return true;
    } catch (IOException | RuntimeException e) {
      abort();
      throw new ReplicaException(ReplicaException.FAILED, "it was not committed", e);
    }
  }

  private void seal() throws IOException {
    if (inSum > 0) {
      endSum(streams.getChecksumOut());
    }
    streams.flushDataOut();
    streams.flushChecksumOut();
    streams.syncDataOut();
    streams.syncChecksumOut();
    replica().setNumBytes(written);
    replica().setBytesAcked(written);
    replica().setLastChecksumAndDataLen(written, lastSum.array());
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
    try (InputStream data = replica().getReplicaInfo().getDataInputStream(0);
        DataInputStream sums = new DataInputStream(
            new BufferedInputStream(replica().getReplicaInfo().getMetadataInputStream(0)))) {
      sums.readFully(new byte[CheckedBytes.HEADER_BYTES]);
      byte[] buffer = new byte[STEP * 256];
      for (long left = written; left > 0;) {
        int count = data.readNBytes(buffer, 0, (int) Math.min(left, buffer.length));
        if (count == 0) {
          throw new IOException("it ends " + left + " bytes before its end");
        }
        for (int at = 0; at < count; at += STEP) {
          int part = Math.min(STEP, count - at);
          if (Frames.crc32c(buffer, at, part) != sums.readInt()) {
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
    data.finalizeBlock(block, true);
    handler.close();
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
    try {
      if (streams != null) {
        streams.close();
        streams = null;
      }
      node.getFSDataset().unfinalizeBlock(block);
      handler.close();
    } catch (IOException | RuntimeException e) {
      PluginLog.LOG.warn("Suture: {} could not be given up: {}", block, PluginLog.reason(e));
    }
  }
}
