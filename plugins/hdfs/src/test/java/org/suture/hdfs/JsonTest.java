package org.suture.hdfs;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.Test;

public class JsonTest {
  private static Object read(String text) throws ProtocolException {
    return Json.read(text.getBytes(StandardCharsets.UTF_8));
  }

  private static void refuses(String text, String word) {
    ProtocolException error = assertThrows(text, ProtocolException.class, () -> read(text));
    assertEquals(error.getMessage(), true, error.getMessage().contains(word));
  }

  @Test
  public void whatIsWrittenReadsBack() throws Exception {
    Map<String, Object> object = new LinkedHashMap<>();
    object.put("text", "a \"quoted\" \\ line\n\u0001 \u00fc \ud83d\ude00");
    object.put("least", Long.MIN_VALUE);
    object.put("most", Long.MAX_VALUE);
    object.put("list", Arrays.asList(true, false, null, List.of(), Map.of()));
    byte[] written = Json.write(object);
    assertEquals(object, Json.read(written));
    assertArrayEquals(written, Json.write(Json.read(written)));
  }

  @Test
  public void spaceAndEscapesAreRead() throws Exception {
    assertEquals(Map.of("a", List.of(1L, -20L)), read(" {\n\"a\" : [ 1 ,\t-20 ] } "));
    assertEquals("\u00e9/\t", read("\"\\u00e9\\/\\t\""));
  }

  @Test
  public void whatIsNoJsonOfOursIsRefused() {
    refuses("", "no value");
    refuses("{\"a\":1,\"a\":2}", "a name twice");
    refuses("{\"a\" 1}", "no ':'");
    refuses("{a:1}", "no name");
    refuses("{\"a\":1", "without end");
    refuses("[1,]", "no value");
    refuses("[1", "without end");
    refuses("\"open", "without end");
    refuses("\"\\x\"", "escape");
    refuses("\"\\u12\"", "escape");
    refuses("\"a\nb\"", "control character");
    refuses("1.5", "not whole");
    refuses("1e9", "not whole");
    refuses("01", "not whole");
    refuses("-", "out of range");
    refuses("9223372036854775808", "out of range");
    refuses("{} {}", "after the value");
    refuses("nul", "no value");
    refuses("[".repeat(1000), "too deep");
    byte[] bad = {'"', (byte) 0xff, '"'};
    assertThrows(ProtocolException.class, () -> Json.read(bad));
  }

  /** Nothing but a refusal comes of anything. */
  @Test
  public void noBytesDoHarm() {
    byte[] start = "{\"op\":\"claim\",\"claims\":[{\"repair\":1,\"why\":\"\\u00e9\"}]}"
        .getBytes(StandardCharsets.UTF_8);
    Random random = new Random(7);
    for (int i = 0; i < 20_000; i++) {
      byte[] bytes = start.clone();
      for (int changes = 1 + random.nextInt(3); changes > 0; changes--) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
      }
      try {
        Object value = Json.read(bytes);
        assertEquals(value, Json.read(Json.write(value)));
      } catch (ProtocolException e) {
        // That is the answer to most of them.
        continue;
      }
    }
  }
}
