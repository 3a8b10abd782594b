package org.suture.hdfs;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The JSON object of a frame, with its fields read by name and kind. */
final class Message {
  private final Map<String, Object> fields;

  private Message(Map<String, Object> fields) {
    this.fields = fields;
  }

  static Message empty() {
    return new Message(new LinkedHashMap<>());
  }

  /** What refuses a request, for people. */
  static Message error(String kind, String why) {
    return empty().with("error", kind).with("why", why);
  }

  @SuppressWarnings("unchecked")
  static Message of(Object value) throws ProtocolException {
    if (!(value instanceof Map)) {
      throw new ProtocolException("a message that is no object");
    }
    return new Message((Map<String, Object>) value);
  }

  Message with(String name, Object value) {
    fields.put(name, value instanceof Message ? ((Message) value).fields : value);
    return this;
  }

  /** As {@link #with}, of several messages. */
  Message withAll(String name, List<Message> values) {
    List<Object> list = new ArrayList<>(values.size());
    values.forEach(value -> list.add(value.fields));
    return with(name, list);
  }

  String text(String name) throws ProtocolException {
    return need(name, String.class);
  }

  long number(String name) throws ProtocolException {
    return need(name, Long.class);
  }

  /** A number within bounds: what is allocated or written for it is bounded by them. */
  long number(String name, long min, long max) throws ProtocolException {
    long value = number(name);
    if (value < min || value > max) {
      throw new ProtocolException(name + " is " + value + ", not " + min + " to " + max);
    }
    return value;
  }

  boolean has(String name) {
    return fields.get(name) != null;
  }

  List<Message> messages(String name) throws ProtocolException {
    List<Message> messages = new ArrayList<>();
    for (Object item : need(name, List.class)) {
      messages.add(of(item));
    }
    return messages;
  }

  private <T> T need(String name, Class<T> kind) throws ProtocolException {
    Object value = fields.get(name);
    if (!kind.isInstance(value)) {
      throw new ProtocolException("a message without '" + name + "', or with another kind of it");
    }
    return kind.cast(value);
  }

  Object json() {
    return fields;
  }

  @Override
  public String toString() {
    return fields.toString();
  }
}
