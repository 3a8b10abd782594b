package org.suture.hdfs;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

/**
 * The Butterfly code of k data columns, as {@code suture-code} defines it ({@code butterfly.rs}):
 * columns D0 .. D(k-1), H, B of 2^(k-1) rows each, by exclusive or alone.
 *
 * H is the sum of each row. With s_j(i) = i xor (2^j - 1),
 * <pre>
 * B[i] = D0[i] + sum over j = 1 .. k-1 of  D0[s_j(i)] + .. + Dj[s_j(i)]  when bits j, j-1 of i differ,
 *                                          Dj[s_j(i)]                    when they are equal.
 * </pre>
 * Here rows are equal parts of a column, one after the other. Any k columns give the others; H does
 * so position by position, B only over whole columns.
 */
public final class Butterfly {
  public static final int DATA_MIN = 2;
  public static final int DATA_MAX = 8;
  public static final int PARITY = 2;

  private final int data;
  private final int rows;

  /** Bytes of a column, or of a part of it, within an array. */
  public static final class Column {
    final byte[] array;
    final int offset;

    public Column(byte[] array, int offset) {
      this.array = array;
      this.offset = offset;
    }

    public boolean isZero(int bytes) {
      for (int i = 0; i < bytes; i++) {
        if (array[offset + i] != 0) {
          return false;
        }
      }
      return true;
    }

    public void copyTo(ByteBuffer to, int bytes) {
      to.put(array, offset, bytes);
    }

    /** Makes it the same as another one, or zero where that is null. */
    public void set(Column other, int bytes) {
      if (other == null) {
        Arrays.fill(array, offset, offset + bytes, (byte) 0);
      } else {
        System.arraycopy(other.array, other.offset, array, offset, bytes);
      }
    }
  }

  public Butterfly(int data, int parity) {
    if (data < DATA_MIN || data > DATA_MAX || parity != PARITY) {
      throw new IllegalArgumentException("butterfly has " + DATA_MIN + " to " + DATA_MAX
          + " data blocks and " + PARITY + " parity blocks, not " + data + " and " + parity);
    }
    this.data = data;
    rows = 1 << (data - 1);
  }

  /** Whether these are found from those without B, position by position. */
  public boolean isPositional(IntPredicate isKnown, int[] wanted) {
    long missing = IntStream.range(0, data).filter(j -> !isKnown.test(j)).count();
    boolean wantsB = Arrays.stream(wanted).anyMatch(column -> column == data + 1);
    return !wantsB && (missing == 0 || missing == 1 && isKnown.test(data));
  }

  /**
   * Finds columns from k or more others.
   *
   * @param known the columns, null where one is not known
   * @param bytes of each; whole columns unless {@link #isPositional}
   */
  public void decode(Column[] known, int[] wanted, Column[] found, int bytes) {
    Column[] all = known.clone();
    for (int i = 0; i < wanted.length; i++) {
      all[wanted[i]] = found[i];
    }
    List<Integer> missing = new ArrayList<>();
    for (int j = 0; j < data; j++) {
      if (known[j] == null) {
        missing.add(j);
        all[j] = all[j] == null ? new Column(new byte[bytes], 0) : all[j];
        all[j].set(null, bytes);
      }
    }
    solve(missing, known, all, bytes);
    for (int column : wanted) {
      if (column == data) {
        all[data].set(null, bytes);
        addH(all, all[data], bytes);
      } else if (column == data + 1) {
        all[data + 1].set(null, bytes);
        addB(all, all[data + 1], bytes);
      }
    }
  }

  /** Fills in the data columns that are missing, which are zero by now. */
  private void solve(List<Integer> missing, Column[] known, Column[] all, int bytes) {
    boolean hasH = known[data] != null;
    if (missing.size() > (hasH ? 1 : 0) + (known[data + 1] != null ? 1 : 0)) {
      throw new IllegalArgumentException("fewer than " + data + " blocks: nothing can be decoded");
    }
    if (missing.isEmpty()) {
      return;
    }
    int first = missing.get(0);
    int last = missing.get(missing.size() - 1);
    if (hasH) {
      // Alone it is that; of two it is their sum.
      add(known[data], 0, all[first], 0, bytes);
      for (int j = 0; j < data; j++) {
        if (!missing.contains(j)) {
          add(all[j], 0, all[first], 0, bytes);
        }
      }
      if (missing.size() == 1) {
        return;
      }
    }
    // With the sum in place of the first, what B lacks is the last one's share, in both places.
    Column share = new Column(new byte[bytes], 0);
    add(known[data + 1], 0, share, 0, bytes);
    addB(all, share, bytes);
    int[][] inverse = inverse(hasH ? new int[] {first, last} : new int[] {last});
    int row = bytes / rows;
    for (int i = 0; i < rows; i++) {
      for (int from : inverse[i]) {
        add(share, from * row, all[last], i * row, row);
      }
    }
    if (hasH) {
      add(all[last], 0, all[first], 0, bytes);
    }
  }

  private void addH(Column[] all, Column to, int bytes) {
    for (int j = 0; j < data; j++) {
      add(all[j], 0, to, 0, bytes);
    }
  }

  private void addB(Column[] all, Column to, int bytes) {
    int row = bytes / rows;
    for (int i = 0; i < rows; i++) {
      for (int column = 0; column < data; column++) {
        for (int from : termsOfB(i, column)) {
          add(all[column], from * row, to, i * row, row);
        }
      }
    }
  }

  /** The rows of a data column that row i of B contains. */
  private int[] termsOfB(int i, int column) {
    int[] found = new int[data];
    int count = 0;
    for (int j = 0; j < data; j++) {
      boolean isPrefix = j > 0 && ((i >> j ^ i >> (j - 1)) & 1) == 1;
      if (column == j || isPrefix && column < j) {
        found[count++] = i ^ ((1 << j) - 1);
      }
    }
    return Arrays.copyOf(found, count);
  }

  /** For each row, which rows of a share of B sum to it, where these columns are the same one. */
  private int[][] inverse(int[] columns) {
    BitSet[] matrix = new BitSet[rows];
    for (int i = 0; i < rows; i++) {
      matrix[i] = new BitSet(2 * rows);
      for (int column : columns) {
        for (int from : termsOfB(i, column)) {
          matrix[i].flip(from);
        }
      }
      matrix[i].set(rows + i);
    }
    for (int pivot = 0; pivot < rows; pivot++) {
      int at = first(pivot, matrix, pivot);
      BitSet row = matrix[at];
      matrix[at] = matrix[pivot];
      matrix[pivot] = row;
      for (int i = 0; i < rows; i++) {
        if (i != pivot && matrix[i].get(pivot)) {
          matrix[i].xor(row);
        }
      }
    }
    int[][] inverse = new int[rows][];
    for (int i = 0; i < rows; i++) {
      inverse[i] = matrix[i].get(rows, 2 * rows).stream().toArray();
    }
    return inverse;
  }

  private int first(int from, BitSet[] matrix, int bit) {
    IntPredicate has = i -> matrix[i].get(bit);
    return IntStream.range(from, rows).filter(has).findFirst()
        .orElseThrow(() -> new IllegalStateException("columns that do not determine each other"));
  }

  private static void add(Column from, int fromByte, Column to, int toByte, int bytes) {
    byte[] in = from.array;
    byte[] out = to.array;
    int a = from.offset + fromByte;
    int b = to.offset + toByte;
    for (int i = 0; i < bytes; i++) {
      out[b + i] ^= in[a + i];
    }
  }
}
