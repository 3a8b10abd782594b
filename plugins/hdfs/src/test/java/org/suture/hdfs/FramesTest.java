package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.junit.Test;

public class FramesTest {
  private static byte[] sent(Message message, byte[] payload) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    new Frames(new ByteArrayInputStream(new byte[0]), out, () -> { })
        .send(message, payload, 0, payload.length);
    return out.toByteArray();
  }

  private static Frames reading(byte[] bytes) {
    return new Frames(new ByteArrayInputStream(bytes), new ByteArrayOutputStream(), () -> { });
  }

  @Test
  public void aFrameComesAsItWasSent() throws Exception {
    byte[] payload = new byte[Frames.PAYLOAD_BYTES_MAX];
    Arrays.fill(payload, (byte) 9);
    Frames frames = reading(sent(Message.empty().with("block", Long.MIN_VALUE + 16), payload));
    Message message = frames.receive();
    assertEquals(Long.MIN_VALUE + 16, message.number("block"));
    assertArrayEquals(payload, Arrays.copyOf(frames.payload(), frames.payloadBytes()));
    assertNull("the end between two frames", frames.receive());
  }

  /** The same bytes stand in the tests of the other end. */
  @Test
  public void theLayoutIsTheOneThatIsWrittenDown() throws Exception {
    byte[] expected = "\0\0\0\2\0\0\0\t\u00e3\u0006\u0092\u0083{}123456789"
        .getBytes(StandardCharsets.ISO_8859_1);
    byte[] digits = "123456789".getBytes(StandardCharsets.US_ASCII);
    assertArrayEquals(expected, sent(Message.empty(), digits));
  }

  @Test
  public void whatIsNoFrameIsRefusedBeforeItIsBelieved() throws Exception {
    byte[] good = sent(Message.empty().with("op", "free"), new byte[100]);
    for (int at : new int[] {0, 4, 8, 12, good.length - 1}) {
      byte[] bad = good.clone();
      bad[at] ^= 0x7f;
      assertThrows("byte " + at, ProtocolException.class, () -> reading(bad).receive());
    }
    for (int cut = 1; cut < good.length; cut++) {
      byte[] part = Arrays.copyOf(good, cut);
      assertThrows("cut at " + cut, IOException.class, () -> reading(part).receive());
    }
  }

  @Test
  public void fieldsAreOfTheirKindsAndWithinTheirBounds() throws Exception {
    Message message = Message.of(Json.read("{\"a\":1,\"b\":\"x\",\"c\":[1],\"d\":null}"
        .getBytes(StandardCharsets.US_ASCII)));
    assertEquals(1, message.number("a", 0, 1));
    assertThrows(ProtocolException.class, () -> message.number("a", 2, 3));
    assertThrows(ProtocolException.class, () -> message.number("b"));
    assertThrows(ProtocolException.class, () -> message.text("a"));
    assertThrows(ProtocolException.class, () -> message.text("missing"));
    assertThrows(ProtocolException.class, () -> message.messages("c"));
    assertThrows(ProtocolException.class, () -> Message.of(7L));
    assertEquals(false, message.has("d"));
  }
}
