package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import java.util.zip.CRC32C;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.erasurecode.CodecUtil;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureDecoder;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureEncoder;
import org.junit.Test;
import org.suture.hdfs.Butterfly.Column;

public class ButterflyTest {
  private static final int CELL = 1 << 20;

  /** The bytes that {@code crates/suture-drivers/src/hdfs/group.rs} makes too. */
  static byte[] made(int from, int bytes) {
    byte[] made = new byte[bytes];
    for (int i = 0; i < bytes; i++) {
      made[i] = (byte) ((from + i + 1) * 0x9E3779B1 >>> 24);
    }
    return made;
  }

  static String crc(byte[] of) {
    CRC32C crc = new CRC32C();
    crc.update(of);
    return String.format("%08x", crc.getValue());
  }

  /** B by the recursion of its definition, a column at a time: slow, and obviously right. */
  private static byte[] slowB(byte[][] data) {
    int rows = 1 << (data.length - 1);
    int row = data[0].length / rows;
    byte[] b = new byte[data[0].length];
    for (int i = 0; i < rows; i++) {
      for (int at = 0; at < row; at++) {
        int sum = data[0][i * row + at];
        for (int j = 1; j < data.length; j++) {
          int mirrored = i ^ ((1 << j) - 1);
          boolean differ = (i >> j & 1) != (i >> (j - 1) & 1);
          for (int column = differ ? 0 : j; column <= j; column++) {
            sum ^= data[column][mirrored * row + at];
          }
        }
        b[i * row + at] = (byte) sum;
      }
    }
    return b;
  }

  private static byte[][] codeword(Random random, int k, int bytes) {
    byte[][] all = new byte[k + 2][bytes];
    for (int j = 0; j < k; j++) {
      random.nextBytes(all[j]);
      for (int i = 0; i < bytes; i++) {
        all[k][i] ^= all[j][i];
      }
    }
    all[k + 1] = slowB(Arrays.copyOf(all, k));
    return all;
  }

  @Test
  public void anyTwoColumnsAreFoundFromTheOthers() {
    for (int k = 2; k <= 8; k++) {
      int bytes = 3 << (k - 1);
      Butterfly code = new Butterfly(k, 2);
      byte[][] all = codeword(new Random(k), k, bytes);
      for (int a = 0; a < k + 2; a++) {
        for (int b = a; b < k + 2; b++) {
          int[] wanted = a == b ? new int[] {a} : new int[] {a, b};
          for (int unread = 0; unread < (a == b ? k + 2 : 1); unread++) {
            Column[] known = new Column[k + 2];
            for (int i = 0; i < k + 2; i++) {
              boolean isKnown = i != a && i != b && (a != b || i != unread);
              known[i] = isKnown ? new Column(all[i], 0) : null;
            }
            Column[] found = new Column[wanted.length];
            for (int i = 0; i < found.length; i++) {
              byte[] old = new byte[bytes + 5];
              Arrays.fill(old, (byte) 7);
              found[i] = new Column(old, 5);
            }
            code.decode(known, wanted, found, bytes);
            for (int i = 0; i < found.length; i++) {
              assertArrayEquals("k " + k + ": " + wanted[i] + " of " + Arrays.toString(wanted),
                  all[wanted[i]], Arrays.copyOfRange(found[i].array, 5, 5 + bytes));
            }
          }
        }
      }
    }
  }

  private static RawErasureEncoder encoder(int data, int parity) {
    return CodecUtil.createRawEncoder(new Configuration(), "butterfly",
        new ErasureCoderOptions(data, parity));
  }

  private static RawErasureDecoder decoder(int data) {
    return CodecUtil.createRawDecoder(new Configuration(), "butterfly",
        new ErasureCoderOptions(data, 2));
  }

  private static ByteBuffer[] buffers(byte[][] of) {
    return Arrays.stream(of).map(a -> a == null ? null : ByteBuffer.wrap(a))
        .toArray(ByteBuffer[]::new);
  }

  @Test
  public void hadoopFindsTheCodecAndItsRowsAreSuturesUnits() throws Exception {
    byte[][] data = new byte[4][];
    for (int j = 0; j < 4; j++) {
      data[j] = made(j * CELL, CELL);
    }
    byte[][] parity = new byte[2][CELL];
    encoder(4, 2).encode(data, parity);
    // What `suture encode --code 'butterfly(4)' --unit 1MiB` makes of the same bytes.
    assertEquals(GOLDEN_H, crc(parity[0]));
    assertEquals(GOLDEN_B, crc(parity[1]));
    ByteBuffer[] direct = new ByteBuffer[4];
    for (int j = 0; j < 4; j++) {
      direct[j] = ByteBuffer.allocateDirect(CELL).put(data[j]).flip();
    }
    ByteBuffer[] outputs = {ByteBuffer.allocateDirect(CELL), ByteBuffer.allocateDirect(CELL)};
    encoder(4, 2).encode(direct, outputs);
    assertEquals(0, direct[3].remaining());
    assertEquals(ByteBuffer.wrap(parity[1]), outputs[1]);
  }

  @Test
  public void aShortRowIsKeptInCopiesAndAnythingElseIsRefused() throws Exception {
    byte[] cell = made(0, 1000);
    ByteBuffer[] data = new ByteBuffer[4];
    for (int j = 0; j < 4; j++) {
      data[j] = ByteBuffer.allocate(CELL);
      data[j].put(j == 0 ? cell : new byte[1000]).flip();
    }
    ByteBuffer[] parity = {ByteBuffer.allocate(1000), ByteBuffer.allocate(1000)};
    encoder(4, 2).encode(data, parity);
    assertArrayEquals(cell, parity[0].array());
    assertArrayEquals(cell, parity[1].array());
    data[2].put(3, (byte) 1);
    Arrays.stream(data).forEach(ByteBuffer::rewind);
    refused("more than its first cell", () -> encoder(4, 2).encode(data, parity));
    refused("-cellsize 1048576",
        () -> encoder(4, 2).encode(new byte[4][2 * CELL], new byte[2][2 * CELL]));
    refused("stripedread.buffer.size",
        () -> encoder(4, 2).encode(new byte[4][65536], new byte[2][65536]));
    assertThrows(IllegalArgumentException.class, () -> encoder(9, 2));
    assertThrows(IllegalArgumentException.class, () -> encoder(4, 3));
  }

  private interface Attempt {
    void run() throws IOException;
  }

  private static void refused(String word, Attempt attempt) {
    IOException error = assertThrows(word, IOException.class, attempt::run);
    assertTrue(error.getMessage(), error.getMessage().contains(word));
  }

  @Test
  public void aPieceOfARowIsDecodedByTheExclusiveOrAndNeverByB() throws Exception {
    byte[][] all = codeword(new Random(1), 4, CELL);
    // A piece anywhere in the row, of any length.
    byte[][] piece = Arrays.stream(all).map(a -> Arrays.copyOfRange(a, 77, 77 + 5001))
        .toArray(byte[][]::new);
    byte[] lost = piece[2];
    piece[2] = null;
    piece[5] = null;
    byte[][] found = {new byte[5001]};
    decoder(4).decode(piece, new int[] {2}, found);
    assertArrayEquals(lost, found[0]);
    piece[5] = Arrays.copyOfRange(all[5], 77, 77 + 5001);
    piece[4] = null;
    refused("piece", () -> decoder(4).decode(buffers(piece), new int[] {2}, buffers(found)));
    refused("piece", () -> decoder(4).decode(piece, new int[] {2}, found));
    // Nor when it is as long as a cell: nothing says where it begins.
    byte[][] whole = all.clone();
    whole[2] = null;
    whole[4] = null;
    refused("piece", () -> decoder(4).decode(whole, new int[] {2}, new byte[1][CELL]));
  }

  static final String GOLDEN_H = "6c0f7515";
  static final String GOLDEN_B = "bacdf4f9";
}
