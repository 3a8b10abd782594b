package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Random;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import java.util.zip.Checksum;
import org.junit.Before;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class CheckedBytesTest {
  private static final int STEP = 512;
  private static final int LENGTH = 5 * STEP + 77;

  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  private final byte[] bytes = new byte[LENGTH];
  private File data;
  private File sums;

  @Before
  public void write() throws Exception {
    new Random(3).nextBytes(bytes);
    data = folder.newFile("blk_-16");
    Files.write(data.toPath(), bytes);
    sums = folder.newFile("blk_-16_1001.meta");
    writeSums(2, new CRC32C());
  }

  private void writeSums(int kind, Checksum sum) throws Exception {
    ByteBuffer table = ByteBuffer.allocate(7 + 4 * ((LENGTH + STEP - 1) / STEP));
    table.putShort((short) 1).put((byte) kind).putInt(STEP);
    for (int at = 0; at < LENGTH; at += STEP) {
      sum.reset();
      sum.update(bytes, at, Math.min(STEP, LENGTH - at));
      table.putInt((int) sum.getValue());
    }
    Files.write(sums.toPath(), table.array());
  }

  private byte[] read(long from, int count) throws Exception {
    CheckedBytes read = CheckedBytes.read(data, sums, LENGTH, from, count);
    return Arrays.copyOfRange(read.bytes, read.from, read.from + count);
  }

  private void refuses(String kind, long from, int count) {
    ReplicaException error = assertThrows(ReplicaException.class, () -> read(from, count));
    assertEquals(error.getMessage(), kind, error.kind);
  }

  @Test
  public void everyRangeIsReadWhateverItsChecksums() throws Exception {
    for (int kind = 1; kind <= 2; kind++) {
      writeSums(kind, kind == 1 ? new CRC32() : new CRC32C());
      for (int from : new int[] {0, 1, 511, 512, 513, LENGTH - 1, LENGTH}) {
        for (int count : new int[] {0, 1, 512, 700, LENGTH}) {
          int within = Math.min(count, LENGTH - from);
          assertArrayEquals(Arrays.copyOfRange(bytes, from, from + within), read(from, within));
        }
      }
    }
  }

  @Test
  public void otherBytesDoNotComeOut() throws Exception {
    byte[] other = bytes.clone();
    other[2 * STEP + 5] ^= 1;
    Files.write(data.toPath(), other);
    refuses(ReplicaException.CORRUPT, 2 * STEP + 400, 10);
    refuses(ReplicaException.CORRUPT, 0, LENGTH);
    assertArrayEquals(Arrays.copyOfRange(bytes, 0, 2 * STEP), read(0, 2 * STEP));
    assertArrayEquals(Arrays.copyOfRange(bytes, 3 * STEP, LENGTH), read(3 * STEP, LENGTH - 3 * STEP));
  }

  @Test
  public void whatWasCutShortIsCorrupt() throws Exception {
    Files.write(data.toPath(), Arrays.copyOf(bytes, LENGTH - 1));
    refuses(ReplicaException.CORRUPT, LENGTH - 10, 10);
    Files.write(data.toPath(), bytes);
    Files.write(sums.toPath(), Arrays.copyOf(Files.readAllBytes(sums.toPath()), 12));
    refuses(ReplicaException.CORRUPT, LENGTH - 10, 10);
    Files.write(sums.toPath(), new byte[0]);
    refuses(ReplicaException.CORRUPT, 0, 1);
  }

  @Test
  public void bytesWithoutChecksumsAreNotRead() throws Exception {
    writeSums(0, new CRC32C());
    refuses(ReplicaException.UNREADABLE, 0, 1);
  }
}
