package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Random;
import org.junit.Test;

public class ChannelStepsTest {
  @Test
  public void largePayloadsAreMovedInSmallSteps() throws Exception {
    byte[] bytes = new byte[Frames.PAYLOAD_BYTES_MAX + 5];
    new Random(4).nextBytes(bytes);
    int[] largest = new int[2];
    InputStream source = new ByteArrayInputStream(bytes) {
      @Override
      public synchronized int read(byte[] into, int from, int count) {
        largest[0] = Math.max(largest[0], count);
        return super.read(into, from, count);
      }
    };
    ByteArrayOutputStream sink = new ByteArrayOutputStream() {
      @Override
      public synchronized void write(byte[] from, int at, int count) {
        largest[1] = Math.max(largest[1], count);
        super.write(from, at, count);
      }
    };
    byte[] read = new byte[bytes.length];
    new DataInputStream(ChannelSteps.in(source)).readFully(read);
    assertArrayEquals(bytes, read);
    try (OutputStream out = ChannelSteps.out(sink)) {
      out.write(bytes, 0, bytes.length);
      out.write(7);
    }
    assertEquals(bytes.length + 1, sink.size());
    assertArrayEquals(bytes, java.util.Arrays.copyOf(sink.toByteArray(), bytes.length));
    assertTrue(largest[0] + ", " + largest[1],
        Math.max(largest[0], largest[1]) <= ChannelSteps.STEP_BYTES);
  }
}
