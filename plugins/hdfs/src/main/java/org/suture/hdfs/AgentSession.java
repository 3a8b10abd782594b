package org.suture.hdfs;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * One connection of the agent: it asks, this end answers, one request at a time.
 *
 * A block is begun, its bytes come in order, and it is finished; a connection that ends in between
 * takes the unfinished block with it. So what an agent leaves that dies is nothing.
 */
final class AgentSession {
  /** An entry of a list: block, generation stamp, length. */
  private static final int ENTRY_BYTES = 24;
  private static final int ENTRIES = Frames.PAYLOAD_BYTES_MAX / ENTRY_BYTES;
  /** An agent that has begun a block sends its bytes at once, or hangs. */
  private static final long FORSAKEN_NANOS = 120_000_000_000L;

  private final Frames frames;
  private final Replicas replicas;
  private volatile NewReplica making;
  /** Since when the agent's next request is waited for; 0 while one is answered. */
  private volatile long waitingNanos;

  AgentSession(Frames frames, Replicas replicas) {
    this.frames = frames;
    this.replicas = replicas;
  }

  void serve() throws IOException {
    try {
      while (true) {
        waitingNanos = Math.max(System.nanoTime(), 1);
        Message request = frames.receive();
        waitingNanos = 0;
        if (request == null) {
          return;
        }
        try {
          answer(request.text("op"), request);
        } catch (ReplicaException e) {
          frames.send(Message.error(e.kind, e.getMessage()));
        }
      }
    } finally {
      abort();
    }
  }

  /**
   * Whether a block was begun of which nothing came for so long that nothing will: while it lasts
   * no other may be made in its place, and its space is set aside.
   */
  boolean isForsaken() {
    return isForsaken(System.nanoTime());
  }

  boolean isForsaken(long nanos) {
    long since = waitingNanos;
    return making != null && since != 0 && nanos - since > FORSAKEN_NANOS;
  }

  private void answer(String op, Message request) throws IOException {
    switch (op) {
      case "hello":
        hello(request);
        return;
      case "list":
        list(request.text("pool"));
        return;
      case "free":
        frames.send(Message.empty().with("bytes", replicas.freeBytes()));
        return;
      case "locate":
        frames.send(replicas.locate(request.text("pool"), request.number("block")));
        return;
      case "read":
        read(request);
        return;
      case "begin":
        abort();
        making = replicas.begin(request);
        frames.send(Message.empty());
        return;
      case "data":
        data();
        return;
      case "finish":
        finish(request);
        return;
      case "abort":
        abort();
        frames.send(Message.empty());
        return;
      default:
        throw new ProtocolException("a request '" + op + "' that is none");
    }
  }

  private void hello(Message request) throws IOException {
    if (!request.text("protocol").equals(Frames.PROTOCOL)) {
      frames.send(Message.error("refused", "this DataNode's plugin speaks " + Frames.PROTOCOL
          + ", the agent " + request.text("protocol") + ": run the same Suture on both"));
      return;
    }
    frames.send(replicas.describe().with("protocol", Frames.PROTOCOL));
  }

  /** In parts that are sent as they are filled: a node may have millions of blocks. */
  private void list(String pool) throws IOException {
    ByteBuffer part = ByteBuffer.allocate(ENTRIES * ENTRY_BYTES);
    replicas.list(pool, block -> {
      if (!part.hasRemaining()) {
        send(part, true);
      }
      part.putLong(block.getBlockId()).putLong(block.getGenerationStamp())
          .putLong(block.getNumBytes());
    });
    send(part, false);
  }

  private void send(ByteBuffer part, boolean hasMore) throws IOException {
    frames.send(Message.empty().with("more", hasMore), part.array(), 0, part.position());
    part.clear();
  }

  private void read(Message request) throws IOException {
    int count = (int) request.number("count", 0, Frames.PAYLOAD_BYTES_MAX);
    long from = request.number("from", 0, Long.MAX_VALUE - count);
    CheckedBytes found = replicas.read(request.text("pool"), request.number("block"), from, count);
    PluginMetrics.get().read(count);
    frames.send(Message.empty(), found.bytes, found.from, count);
  }

  /** Not answered: what fails is said when the block is finished. */
  private void data() throws IOException {
    if (making == null) {
      throw new ProtocolException("bytes of a block that was not begun");
    }
    making.write(frames.payload(), frames.payloadBytes());
  }

  private void finish(Message request) throws IOException {
    if (making == null) {
      throw new ProtocolException("the end of a block that was not begun");
    }
    NewReplica made = making;
    making = null;
    boolean isNamed = made.finish((int) request.number("crc", 0, 0xffffffffL));
    frames.send(Message.empty().with("published", isNamed ? "named" : "taken"));
  }

  private void abort() {
    if (making != null) {
      making.abort();
      making = null;
    }
  }
}
