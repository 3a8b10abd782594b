package org.suture.hdfs;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The JSON of frames: objects, lists, text, whole numbers, truth and null, and nothing else.
 *
 * A value is a {@code Map}, a {@code List}, a {@code String}, a {@code Long}, a {@code Boolean} or
 * null. Hadoop brings JSON libraries, each release others; this one cannot meet them. It is strict:
 * no fractions, no name twice, no depth beyond {@link #DEPTH_MAX}, nothing after the value.
 */
final class Json {
  static final int DEPTH_MAX = 16;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** Reads one value; {@link ProtocolException} says where the text is none. */
  static Object read(byte[] utf8) throws ProtocolException {
    final String text;
    try {
      text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString();
    } catch (CharacterCodingException e) {
      throw new ProtocolException("JSON that is no UTF-8");
    }
    Json reader = new Json(text);
    Object value = reader.value(0);
    reader.space();
    if (reader.at != text.length()) {
      throw reader.wrong("something after the value");
    }
    return value;
  }

  /** The bytes of a value. */
  static byte[] write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString().getBytes(StandardCharsets.UTF_8);
  }

  private Object value(int depth) throws ProtocolException {
    if (depth > DEPTH_MAX) {
      throw wrong("values too deep in each other");
    }
    space();
    if (at == text.length()) {
      throw wrong("no value");
    }
    char c = text.charAt(at);
    if (c == '{') {
      return object(depth);
    }
    if (c == '[') {
      return list(depth);
    }
    if (c == '"') {
      return string();
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
      return number();
    }
    for (Object word : new Object[] {Boolean.TRUE, Boolean.FALSE, null}) {
      if (text.startsWith(String.valueOf(word), at)) {
        at += String.valueOf(word).length();
        return word;
      }
    }
    throw wrong("no value");
  }

  private Map<String, Object> object(int depth) throws ProtocolException {
    Map<String, Object> object = new LinkedHashMap<>();
    at++;
    if (ends('}')) {
      return object;
    }
    do {
      space();
      if (at == text.length() || text.charAt(at) != '"') {
        throw wrong("no name");
      }
      String name = string();
      if (!ends(':')) {
        throw wrong("no ':' after a name");
      }
      Object value = value(depth + 1);
      if (object.containsKey(name)) {
        throw wrong("a name twice");
      }
      object.put(name, value);
    } while (ends(','));
    if (!ends('}')) {
      throw wrong("an object without end");
    }
    return object;
  }

  private List<Object> list(int depth) throws ProtocolException {
    List<Object> list = new ArrayList<>();
    at++;
    if (ends(']')) {
      return list;
    }
    do {
      list.add(value(depth + 1));
    } while (ends(','));
    if (!ends(']')) {
      throw wrong("a list without end");
    }
    return list;
  }

  private Long number() throws ProtocolException {
    int from = at;
    at++;
    while (at < text.length() && Character.digit(text.charAt(at), 10) >= 0 && text.charAt(at) < 128) {
      at++;
    }
    String digits = text.substring(from, at);
    boolean isPadded = digits.matches("-?0[0-9]+");
    if (isPadded || (at < text.length() && ".eE".indexOf(text.charAt(at)) >= 0)) {
      throw wrong("a number that is not whole");
    }
    try {
      return Long.valueOf(digits);
    } catch (NumberFormatException e) {
      throw wrong("a number out of range");
    }
  }

  private String string() throws ProtocolException {
    StringBuilder string = new StringBuilder();
    at++;
    while (at < text.length()) {
      char c = text.charAt(at++);
      if (c == '"') {
        return string.toString();
      }
      if (c < ' ') {
        throw wrong("a control character in text");
      }
      string.append(c == '\\' ? escaped() : c);
    }
    throw wrong("text without end");
  }

  private char escaped() throws ProtocolException {
    if (at == text.length()) {
      throw wrong("text without end");
    }
    char c = text.charAt(at++);
    int plain = "\"\\/bfnrt".indexOf(c);
    if (plain >= 0) {
      return "\"\\/\b\f\n\r\t".charAt(plain);
    }
    String hex = at + 4 <= text.length() ? text.substring(at, at + 4) : "";
    if (c != 'u' || !hex.matches("[0-9a-fA-F]{4}")) {
      throw wrong("an escape that is none");
    }
    at += 4;
    return (char) Integer.parseInt(hex, 16);
  }

  private boolean ends(char mark) {
    space();
    boolean found = at < text.length() && text.charAt(at) == mark;
    at += found ? 1 : 0;
    return found;
  }

  private void space() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private ProtocolException wrong(String what) {
    return new ProtocolException("JSON with " + what + " at character " + at);
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof Map) {
      char mark = '{';
      for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
        out.append(mark);
        quote((String) entry.getKey(), out);
        out.append(':');
        write(entry.getValue(), out);
        mark = ',';
      }
      out.append(mark == '{' ? "{}" : "}");
    } else if (value instanceof Iterable) {
      char mark = '[';
      for (Object item : (Iterable<?>) value) {
        out.append(mark);
        write(item, out);
        mark = ',';
      }
      out.append(mark == '[' ? "[]" : "]");
    } else if (value instanceof String) {
      quote((String) value, out);
    } else {
      out.append(value);
    }
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || Character.isSurrogate(c)) {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}
