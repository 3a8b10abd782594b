package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.junit.Test;
import org.mockito.ArgumentMatchers;
import org.mockito.Mockito;

/** What a DataNode's plugin says of blocks that are there, are not there yet, or are nobody's. */
public class BlocksClusterTest extends MiniCluster {
  private String error(Frames agent, Message question) throws Exception {
    agent.send(question);
    return agent.expect().text("error");
  }

  private Message read(long from, long count) throws Exception {
    return about("read").with("from", from).with("count", count);
  }

  @Test
  public void aBlockOfWhichTheNameNodeHasNotHeardIsToldOfAgain() throws Exception {
    loseFirst();
    DataNode target = free();
    byte[] block = Arrays.copyOf(content, CELL);
    // As if the DataNode's word had been lost.
    DataNode silent = Mockito.spy(target);
    Mockito.doNothing().when(silent).notifyNamenodeReceivedBlock(ArgumentMatchers.any(),
        ArgumentMatchers.any(), ArgumentMatchers.any(), ArgumentMatchers.anyBoolean());
    NewReplica made = NewReplica.begin(silent, new Replicas(silent),
        new ExtendedBlock(pool(), group(), CELL, known.number("stamp")), "DISK", null);
    made.write(block, CELL);
    assertTrue(made.finish(Frames.crc32c(block, 0, CELL)));
    Thread.sleep(2_500);
    assertFalse("by a heartbeat", isLive(target));
    try (Frames agent = agent(target)) {
      assertEquals("named", commit(agent, block).text("published"));
    }
    waitUntil("the DataNode's word", () -> isLive(target));
  }

  @Test
  public void aBlockThatIsBeingWrittenIsNotThereYet() throws Exception {
    loseFirst();
    DataNode target = free();
    byte[] block = Arrays.copyOf(content, CELL);
    long corrupt = PluginMetrics.get().corruptReplicas.value();
    try (Frames writer = agent(target); Frames other = agent(target)) {
      begin(writer, block);
      assertEquals("missing", error(other, about("locate")));
      assertEquals("missing", error(other, read(0, 10)));
      Message begin = about("begin").with("stamp", known.number("stamp"))
          .with("bytes", (long) CELL);
      assertEquals("failed", error(other, begin));
      assertFalse(listed(other).contains(group()));
      assertEquals("named", finish(writer, block).text("published"));
      other.send(read(0, 10));
      assertFalse(other.expect().has("error"));
      assertTrue(listed(other).contains(group()));
    }
    assertEquals("reported", corrupt, PluginMetrics.get().corruptReplicas.value());
    waitUntil("live", () -> isLive(target));
  }

  /** The blocks that a DataNode lists; each has the length and stamp of those of the file. */
  private Set<Long> listed(Frames agent) throws Exception {
    Set<Long> found = new HashSet<>();
    agent.send(Message.empty().with("op", "list").with("pool", pool()));
    boolean hasMore = true;
    while (hasMore) {
      hasMore = agent.expect().toString().contains("more=true");
      ByteBuffer entries = ByteBuffer.wrap(agent.payload(), 0, agent.payloadBytes());
      while (entries.hasRemaining()) {
        found.add(entries.getLong());
        assertEquals(known.number("stamp"), entries.getLong());
        assertEquals(CELL, entries.getLong());
      }
    }
    return found;
  }

  @Test
  public void whoAsksForMoreThanThereIsDoesNotMakeABlockCorrupt() throws Exception {
    long corrupt = PluginMetrics.get().corruptReplicas.value();
    try (Frames agent = agent(holder(0))) {
      assertEquals("unreadable", error(agent, read(CELL - 5, 10)));
      assertEquals("unreadable", error(agent, read(Long.MAX_VALUE - 20, 10)));
      agent.send(read(CELL - 5, 5));
      assertFalse(agent.expect().has("error"));
    }
    assertEquals(corrupt, PluginMetrics.get().corruptReplicas.value());
  }

  @Test
  public void aBlockThatIsWrongByAllOthersCountsAsCorruptAndCanBeClaimed() throws Exception {
    loseFirst();
    DataNode wrong = holder(1);
    Message condemn = Message.empty().with("op", "condemn").with("group", known.number("group"))
        .with("stamp", known.number("stamp")).with("index", 1L)
        .with("node", wrong.getDatanodeUuid());
    // Of another one, or of another group of this id, nothing is said.
    coordinator.ask(Message.empty().with("op", "condemn").with("group", known.number("group"))
        .with("stamp", known.number("stamp") + 1).with("index", 1L)
        .with("node", wrong.getDatanodeUuid()));
    atRisk();
    assertTrue(units().containsKey(1L));
    Message answer = coordinator.ask(condemn);
    waitUntil("it is lost", () -> {
      atRisk();
      return !units().containsKey(1L);
    });
    assertTrue(units().containsKey(2L));
    DataNode target = free();
    Message granted = claim(7, known.number("stamp"), Map.of(1L, target));
    assertFalse(granted.toString(), granted.has("why"));
    assertEquals("once is enough", answer.toString(), coordinator.ask(condemn).toString());
  }

  @Test
  public void anAgentThatBeginsABlockAndHangsIsForsaken() throws Exception {
    loseFirst();
    DataNode target = free();
    byte[] block = Arrays.copyOf(content, CELL);
    PipedInputStream asked = new PipedInputStream(2 * CELL);
    PipedOutputStream asks = new PipedOutputStream(asked);
    PipedInputStream answers = new PipedInputStream(CELL);
    PipedOutputStream answered = new PipedOutputStream(answers);
    AgentSession session =
        new AgentSession(new Frames(asked, answered, asked), new Replicas(target));
    Thread serving = new Thread(() -> {
      try {
        session.serve();
      } catch (Exception e) {
        // Its other end is gone.
      }
    });
    serving.start();
    Frames agent = new Frames(answers, asks, asks);
    long later = System.nanoTime() + 300_000_000_000L;
    assertFalse("it has begun nothing", session.isForsaken(later));
    begin(agent, block);
    waitUntil("it waits for more", () -> session.isForsaken(later));
    assertFalse("not yet", session.isForsaken(System.nanoTime()));
    assertEquals("named", finish(agent, block).text("published"));
    assertFalse("it is done", session.isForsaken(later));
    agent.close();
    serving.join();
  }
}
