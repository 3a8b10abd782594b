package org.suture.hdfs;

import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;

/**
 * Bytes of a replica, read with the checksums that lie beside it and checked against them.
 *
 * The file of checksums: version (2 bytes), kind (1), bytes for each checksum (4), then the checksums
 * (4 each, big-endian). Reads go out to whole checksums; what fails its checksum does not come out.
 */
final class CheckedBytes {
  static final int HEADER_BYTES = 7;
  private static final int VERSION = 1;
  private static final int KIND_CRC32 = 1;
  private static final int KIND_CRC32C = 2;
  /** HDFS has 512 by default; more than that is some cluster's choice, but not megabytes. */
  static final int STEP_MAX = 1 << 20;

  final byte[] bytes;
  final int from;

  private CheckedBytes(byte[] bytes, int from) {
    this.bytes = bytes;
    this.from = from;
  }

  static CheckedBytes read(File data, File sums, long length, long from, int count)
      throws IOException {
    try (RandomAccessFile meta = new RandomAccessFile(sums, "r");
        RandomAccessFile file = new RandomAccessFile(data, "r")) {
      byte[] header = new byte[HEADER_BYTES];
      meta.readFully(header);
      ByteBuffer fields = ByteBuffer.wrap(header);
      int version = fields.getShort();
      Checksum sum = checksum(version, fields.get());
      int step = fields.getInt();
      if (step <= 0 || step > STEP_MAX) {
        throw new ReplicaException(ReplicaException.CORRUPT, sums + " says checksums of " + step);
      }
      long first = from / step * step;
      long end = Math.min((from + count + step - 1) / step * step, length);
      int bytes = (int) (end - first);
      byte[] read = new byte[bytes];
      file.seek(first);
      file.readFully(read);
      byte[] table = new byte[4 * ((bytes + step - 1) / step)];
      meta.seek(HEADER_BYTES + first / step * 4);
      meta.readFully(table);
      check(read, ByteBuffer.wrap(table), step, sum, data);
      return new CheckedBytes(read, (int) (from - first));
    } catch (java.io.EOFException e) {
      throw new ReplicaException(ReplicaException.CORRUPT, data + " or " + sums + " was cut short");
    }
  }

  private static void check(byte[] read, ByteBuffer table, int step, Checksum sum, File data)
      throws ReplicaException {
    for (int at = 0; at < read.length; at += step) {
      sum.reset();
      sum.update(read, at, Math.min(step, read.length - at));
      if ((int) sum.getValue() != table.getInt()) {
        throw new ReplicaException(ReplicaException.CORRUPT,
            data + " has other bytes than its checksums");
      }
    }
  }

  private static Checksum checksum(int version, int kind) throws ReplicaException {
    if (version == VERSION && kind == KIND_CRC32C) {
      return new CRC32C();
    }
    if (version == VERSION && kind == KIND_CRC32) {
      return new CRC32();
    }
    throw new ReplicaException(ReplicaException.UNREADABLE, "checksums of version " + version
        + " and kind " + kind + ", by which nothing can be checked");
  }
}
