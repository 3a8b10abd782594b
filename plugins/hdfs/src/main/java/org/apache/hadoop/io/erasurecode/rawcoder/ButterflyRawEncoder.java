package org.apache.hadoop.io.erasurecode.rawcoder;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.suture.hdfs.Butterfly;
import org.suture.hdfs.Butterfly.Column;

/** Both parities of a row. */
final class ButterflyRawEncoder extends RawErasureEncoder {
  private final Butterfly code;
  private final int[] parity;

  ButterflyRawEncoder(ErasureCoderOptions options) {
    super(options);
    code = new Butterfly(getNumDataUnits(), getNumParityUnits());
    parity = new int[] {getNumDataUnits(), getNumDataUnits() + 1};
  }

  @Override
  public void encode(ByteBuffer[] inputs, ByteBuffer[] outputs) throws IOException {
    ButterflyRows.checkRow(ButterflyRows.remaining(inputs), ButterflyRows.room(inputs));
    super.encode(inputs, outputs);
  }

  @Override
  public void encode(byte[][] inputs, byte[][] outputs) throws IOException {
    ButterflyRows.checkRow(ButterflyRows.room(inputs), ButterflyRows.room(inputs));
    super.encode(inputs, outputs);
  }

  @Override
  protected void doEncode(ByteArrayEncodingState state) throws IOException {
    Column[] known = new Column[getNumAllUnits()];
    for (int i = 0; i < state.inputs.length; i++) {
      known[i] = new Column(state.inputs[i], state.inputOffsets[i]);
    }
    Column[] found = new Column[parity.length];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Column(state.outputs[i], state.outputOffsets[i]);
    }
    encode(known, found, state.encodeLength);
  }

  @Override
  protected void doEncode(ByteBufferEncodingState state) throws IOException {
    Column[] known = new Column[getNumAllUnits()];
    for (int i = 0; i < state.inputs.length; i++) {
      known[i] = ButterflyRows.copied(state.inputs[i]);
    }
    Column[] found = new Column[parity.length];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Column(new byte[state.encodeLength], 0);
    }
    encode(known, found, state.encodeLength);
    for (int i = 0; i < found.length; i++) {
      found[i].copyTo(state.outputs[i].duplicate(), state.encodeLength);
    }
  }

  private void encode(Column[] known, Column[] found, int bytes) throws IOException {
    if (bytes == ButterflyRows.CELL) {
      code.decode(known, parity, found, bytes);
    } else {
      ButterflyRows.copy(known, parity, found, bytes);
    }
  }
}
