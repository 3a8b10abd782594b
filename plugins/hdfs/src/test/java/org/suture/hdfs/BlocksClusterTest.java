package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
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
}
