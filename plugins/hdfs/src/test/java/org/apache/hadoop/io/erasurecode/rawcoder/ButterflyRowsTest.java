package org.apache.hadoop.io.erasurecode.rawcoder;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertThrows;

import java.io.IOException;
import java.util.Arrays;
import org.junit.Test;
import org.suture.hdfs.Butterfly.Column;

public class ButterflyRowsTest {
  private static final int CELL = ButterflyRows.CELL;

  @Test
  public void aPieceOfARowIsNotTakenForAShortOne() throws Exception {
    // The first block and the parities end with their row, so this is the end of one.
    for (int index : new int[] {0, 4, 5}) {
      ButterflyRows.checkShortRow(1000, new int[] {index}, 4);
      ButterflyRows.checkShortRow(1000, new int[] {2, index}, 4);
    }
    // Others may end before their row does.
    assertThrows(IOException.class, () -> ButterflyRows.checkShortRow(1000, new int[] {2}, 4));
    ButterflyRows.checkShortRow(CELL, new int[] {2}, 4);
  }

  @Test
  public void whatHasNoRoomForACellIsNoRow() throws Exception {
    ButterflyRows.checkRow(CELL, CELL);
    ButterflyRows.checkRow(5, CELL);
    assertThrows(IOException.class, () -> ButterflyRows.checkRow(65536, 65536));
    assertThrows(IOException.class, () -> ButterflyRows.checkRow(2 * CELL, 2 * CELL));
    assertThrows(IOException.class, ButterflyRows::checkCaller);
  }

  @Test
  public void aShortRowIsCopiedFromWhicheverOfItsCopiesIsLeft() throws Exception {
    byte[] cell = {1, 2, 3};
    for (int left : new int[] {0, 4, 5}) {
      Column[] known = new Column[6];
      known[1] = known[2] = known[3] = new Column(new byte[3], 0);
      known[left] = new Column(cell, 0);
      for (int wanted : new int[] {0, 4, 5}) {
        byte[] found = {9, 9, 9};
        ButterflyRows.copy(known, new int[] {wanted}, new Column[] {new Column(found, 0)}, 3);
        assertArrayEquals(cell, found);
      }
      byte[] none = {9, 9, 9};
      known[1] = null;
      Column[] both = {new Column(none, 0), new Column(new byte[3], 0)};
      ButterflyRows.copy(known, new int[] {1, 5}, both, 3);
      assertArrayEquals(new byte[3], none);
    }
    Column[] nothing = new Column[6];
    Arrays.fill(nothing, 1, 4, new Column(new byte[3], 0));
    Column[] found = {new Column(new byte[3], 0)};
    assertThrows(IOException.class,
        () -> ButterflyRows.copy(nothing, new int[] {0}, found, 3));
  }
}
