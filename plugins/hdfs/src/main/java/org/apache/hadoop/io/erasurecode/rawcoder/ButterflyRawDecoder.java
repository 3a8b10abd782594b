package org.apache.hadoop.io.erasurecode.rawcoder;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.suture.hdfs.Butterfly;
import org.suture.hdfs.Butterfly.Column;

/**
 * Lost cells of a row from others. With one data block lost the exclusive or does it, for any piece
 * of a row; else rows have to be whole.
 */
final class ButterflyRawDecoder extends RawErasureDecoder {
  private final Butterfly code;

  ButterflyRawDecoder(ErasureCoderOptions options) {
    super(options);
    code = new Butterfly(getNumDataUnits(), getNumParityUnits());
  }

  @Override
  public synchronized void decode(ByteBuffer[] inputs, int[] erased, ByteBuffer[] outputs)
      throws IOException {
    check(inputs, erased, ButterflyRows.remaining(inputs), ButterflyRows.room(inputs));
    super.decode(inputs, erased, outputs);
  }

  @Override
  public synchronized void decode(byte[][] inputs, int[] erased, byte[][] outputs)
      throws IOException {
    check(inputs, erased, ButterflyRows.room(inputs), ButterflyRows.room(inputs));
    super.decode(inputs, erased, outputs);
  }

  private void check(Object[] inputs, int[] erased, int bytes, int room) throws IOException {
    if (!isPositional(inputs, erased)) {
      ButterflyRows.checkCaller();
      ButterflyRows.checkRow(bytes, room);
      ButterflyRows.checkShortRow(bytes, erased, getNumDataUnits());
    }
  }

  private boolean isPositional(Object[] inputs, int[] erased) {
    return code.isPositional(i -> inputs[i] != null, erased);
  }

  @Override
  protected void doDecode(ByteArrayDecodingState state) throws IOException {
    Column[] known = new Column[state.inputs.length];
    for (int i = 0; i < known.length; i++) {
      known[i] = state.inputs[i] == null ? null
          : new Column(state.inputs[i], state.inputOffsets[i]);
    }
    Column[] found = new Column[state.outputs.length];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Column(state.outputs[i], state.outputOffsets[i]);
    }
    decode(known, state.erasedIndexes, found, state.decodeLength);
  }

  @Override
  protected void doDecode(ByteBufferDecodingState state) throws IOException {
    Column[] known = new Column[state.inputs.length];
    for (int i = 0; i < known.length; i++) {
      known[i] = state.inputs[i] == null ? null : ButterflyRows.copied(state.inputs[i]);
    }
    Column[] found = new Column[state.outputs.length];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Column(new byte[state.decodeLength], 0);
    }
    decode(known, state.erasedIndexes, found, state.decodeLength);
    for (int i = 0; i < found.length; i++) {
      found[i].copyTo(state.outputs[i].duplicate(), state.decodeLength);
    }
  }

  private void decode(Column[] known, int[] wanted, Column[] found, int bytes)
      throws IOException {
    if (bytes == ButterflyRows.CELL || isPositional(known, wanted)) {
      code.decode(known, wanted, found, bytes);
    } else {
      ButterflyRows.copy(known, wanted, found, bytes);
    }
  }
}
