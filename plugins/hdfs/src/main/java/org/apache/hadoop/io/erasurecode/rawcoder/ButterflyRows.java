package org.apache.hadoop.io.erasurecode.rawcoder;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Set;
import org.suture.hdfs.Butterfly;
import org.suture.hdfs.Butterfly.Column;

/**
 * What is a codeword of the codec {@code butterfly}, and who hands over whole ones.
 *
 * A codeword is a row of whole cells of 1 MiB. The last row of a group may be shorter; it has data in
 * its first cell alone, and both parities are copies of that. A coder is told neither where in a cell
 * its bytes lie nor how long cells are, and a piece of a row that is taken for a whole one would be
 * decoded to other bytes without an error. So what needs whole rows is done only for callers that
 * are known to cut at cells, with room for a whole one, and anything else is refused.
 */
final class ButterflyRows {
  static final int CELL = 1 << 20;
  static final String BUFFER_KEY = "dfs.datanode.ec.reconstruction.stripedread.buffer.size";

  /** They read from the start of a row: a whole cell of each block, or what there is of it. */
  private static final Set<String> CUT_AT_CELLS = Set.of(
      "org.apache.hadoop.hdfs.StatefulStripeReader",
      "org.apache.hadoop.hdfs.server.datanode.erasurecode.StripedBlockReconstructor",
      "org.apache.hadoop.hdfs.server.datanode.erasurecode.StripedBlockChecksumReconstructor");

  private ButterflyRows() {
  }

  /** How much the buffers that a caller works with can hold. */
  static int room(ByteBuffer[] buffers) {
    return Arrays.stream(buffers).filter(b -> b != null).mapToInt(ByteBuffer::capacity).max()
        .orElse(0);
  }

  static int room(byte[][] arrays) {
    return Arrays.stream(arrays).filter(a -> a != null).mapToInt(a -> a.length).max().orElse(0);
  }

  static int remaining(ByteBuffer[] buffers) {
    return Arrays.stream(buffers).filter(b -> b != null).mapToInt(ByteBuffer::remaining).max()
        .orElse(0);
  }

  /** Fails unless so many bytes are a row: of whole cells, or a short one whose end they are. */
  static void checkRow(int bytes, int room) throws IOException {
    if (bytes > CELL || room < CELL) {
      throw new IOException("the codec butterfly works on whole cells of " + CELL
          + " bytes, and was given " + bytes + " with room for " + room + ": its policies have"
          + " -cellsize " + CELL + ", and DataNodes and verifyEC need " + BUFFER_KEY + " = " + CELL);
    }
  }

  /**
   * Fails where fewer bytes than a cell are a piece of a longer row: HDFS reconstructs a block to its
   * own end, and only the first block and the parities end where their row does.
   */
  static void checkShortRow(int bytes, int[] wanted, int data) throws IOException {
    if (bytes < CELL && Arrays.stream(wanted).noneMatch(index -> isCopy(index, data))) {
      throw new IOException("the codec butterfly decodes the end of a block that is shorter than its"
          + " parities by the first of these, and was given the second: HDFS tries again");
    }
  }

  /** Whether a short row has data in this block. */
  private static boolean isCopy(int index, int data) {
    return index == 0 || index >= data;
  }

  /** Fails unless one of the callers is known to cut at cells. */
  static void checkCaller() throws IOException {
    boolean isKnown = StackWalker.getInstance().walk(
        frames -> frames.anyMatch(frame -> CUT_AT_CELLS.contains(frame.getClassName())));
    if (!isKnown) {
      throw new IOException("the codec butterfly decodes this only over whole cells, and a positional"
          + " read hands over a piece: two of the blocks that it needs are missing. Read from the"
          + " start of a row (seek and read), or wait until one of them is rebuilt");
    }
  }

  /** A short row: copies of its first cell, and zeros. */
  static void copy(Column[] known, int[] wanted, Column[] found, int bytes) throws IOException {
    int data = known.length - Butterfly.PARITY;
    Column source = null;
    for (int i = 0; i < known.length; i++) {
      if (known[i] != null && isCopy(i, data)) {
        source = known[i];
      } else if (known[i] != null && !known[i].isZero(bytes)) {
        throw new IOException("the codec butterfly was given a row of " + bytes + " bytes with data"
            + " in more than its first cell: its policies have -cellsize " + CELL);
      }
    }
    for (int i = 0; i < wanted.length; i++) {
      boolean isCopy = isCopy(wanted[i], data);
      if (isCopy && source == null) {
        throw new IOException("fewer than " + data + " blocks: nothing can be decoded");
      }
      found[i].set(isCopy ? source : null, bytes);
    }
  }

  /** The bytes of a buffer in an array of their own. */
  static Column copied(ByteBuffer buffer) {
    byte[] bytes = new byte[buffer.remaining()];
    buffer.duplicate().get(bytes);
    return new Column(bytes, 0);
  }
}
