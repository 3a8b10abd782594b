package org.suture.hdfs;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.zip.CRC32C;

/**
 * One end of a connection that speaks {@code suture-hdfs-1}: frames of JSON, each perhaps with raw
 * bytes behind it. docs/hdfs-protocol.md has the layout.
 *
 * What is received is bounded before anything is allocated for it. One payload is held at a time, in
 * a buffer that is used again.
 */
final class Frames implements Closeable {
  /** What both ends must speak. */
  static final String PROTOCOL = "suture-hdfs-1";

  static final int JSON_BYTES_MAX = 4 << 20;
  static final int PAYLOAD_BYTES_MAX = 1 << 20;

  private final DataInputStream in;
  private final DataOutputStream out;
  private final Closeable connection;
  private byte[] payload = new byte[0];
  private int payloadBytes;

  Frames(InputStream in, OutputStream out, Closeable connection) {
    this.in = new DataInputStream(in);
    this.out = new DataOutputStream(out);
    this.connection = connection;
  }

  /** The next message; null where the other end has ended the connection between two frames. */
  Message receive() throws IOException {
    final int jsonBytes;
    int first = in.read();
    if (first < 0) {
      return null;
    }
    jsonBytes = first << 24 | in.readUnsignedByte() << 16 | in.readUnsignedShort();
    int bytes = in.readInt();
    int crc = in.readInt();
    if (jsonBytes < 2 || jsonBytes > JSON_BYTES_MAX) {
      throw new ProtocolException("a message of " + Integer.toUnsignedLong(jsonBytes) + " bytes");
    }
    if (bytes < 0 || bytes > PAYLOAD_BYTES_MAX) {
      throw new ProtocolException("a payload of " + Integer.toUnsignedLong(bytes) + " bytes");
    }
    byte[] json = new byte[jsonBytes];
    in.readFully(json);
    if (payload.length < bytes) {
      payload = new byte[bytes];
    }
    in.readFully(payload, 0, bytes);
    payloadBytes = bytes;
    if (crc32c(payload, 0, bytes) != crc) {
      throw new ProtocolException("a payload with another checksum than it was sent with");
    }
    return Message.of(Json.read(json));
  }

  /** As {@link #receive}, where an end is an error. */
  Message expect() throws IOException {
    Message message = receive();
    if (message == null) {
      throw new EOFException("the other end has hung up");
    }
    return message;
  }

  /** What came with the last message; valid until the next. */
  byte[] payload() {
    return payload;
  }

  int payloadBytes() {
    return payloadBytes;
  }

  void send(Message message) throws IOException {
    send(message, payload, 0, 0);
  }

  void send(Message message, byte[] bytes, int from, int count) throws IOException {
    byte[] json = Json.write(message.json());
    if (json.length > JSON_BYTES_MAX || count > PAYLOAD_BYTES_MAX) {
      throw new IllegalArgumentException("a frame of " + json.length + " and " + count + " bytes");
    }
    out.writeInt(json.length);
    out.writeInt(count);
    out.writeInt(crc32c(bytes, from, count));
    out.write(json);
    out.write(bytes, from, count);
    out.flush();
  }

  static int crc32c(byte[] bytes, int from, int count) {
    CRC32C crc = new CRC32C();
    crc.update(bytes, from, count);
    return (int) crc.getValue();
  }

  @Override
  public void close() throws IOException {
    connection.close();
  }
}
