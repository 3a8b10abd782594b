package org.apache.hadoop.hdfs.server.blockmanagement;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.hadoop.hdfs.protocol.Block;
import org.junit.Test;

/** The NameNode's queues, walked in parts while they change. */
public class WalkTest {
  private static final int ONE_LEFT = 1;
  private static final int TWO_LEFT = 2;

  private final LowRedundancyBlocks queues = new LowRedundancyBlocks();
  private final SutureBlocks.Walk walk = new SutureBlocks.Walk(queues);
  private final List<BlockInfo> blocks = IntStream.range(0, 100)
      .mapToObj(id -> new BlockInfoContiguous(new Block(id), (short) 3))
      .collect(Collectors.toList());

  private void add(int id, int left) {
    assertTrue(queues.add(blocks.get(id), left, 0, 0, 3));
  }

  private void remove(int id) {
    assertTrue(queues.remove(blocks.get(id), -1));
  }

  /** The ids of the next part, in order, each behind the number of its queue. */
  private List<String> next(int count) {
    List<String> seen = new ArrayList<>();
    walk.next(count, (block, queue) -> seen.add(queue + ":" + block.getBlockId()));
    return seen;
  }

  @Test
  public void eachQueueIsWalkedInPartsAndBegunAgain() {
    for (int id = 0; id < 5; id++) {
      add(id, TWO_LEFT);
    }
    add(9, ONE_LEFT);
    // What is most at risk comes first, and is looked at each time.
    assertEquals(List.of("0:9", "2:0", "2:1"), next(2));
    assertEquals(List.of("0:9", "2:2", "2:3"), next(2));
    assertEquals(List.of("0:9", "2:4"), next(2));
    assertEquals(List.of("0:9", "2:0", "2:1"), next(2));
  }

  @Test
  public void aWalkThatIsRestartedStandsNowhereAndSeesWhatIsThere() {
    for (int id = 0; id < 4; id++) {
      add(id, TWO_LEFT);
    }
    assertEquals(List.of("2:0", "2:1"), next(2));
    // Nobody walks on while all of it goes and other things come.
    for (int id = 0; id < 4; id++) {
      remove(id);
    }
    add(7, TWO_LEFT);
    walk.restart();
    assertEquals(List.of("2:7"), next(2));
  }

  @Test
  public void whatIsTakenOutDoesNotEndTheWalkAndWhatComesIsSeen() {
    for (int id = 0; id < 6; id++) {
      add(id, TWO_LEFT);
    }
    assertEquals(List.of("2:0", "2:1"), next(2));
    // The place itself, its neighbours, and what was seen.
    for (int id = 0; id < 4; id++) {
      remove(id);
    }
    add(7, TWO_LEFT);
    Set<String> seen = new TreeSet<>(next(3));
    seen.addAll(next(3));
    assertTrue(seen.toString(), seen.containsAll(List.of("2:4", "2:5", "2:7")));
    queues.clear();
    next(100);
    assertEquals(List.of(), next(100));
  }

  @Test
  public void nothingIsLeftOutOfALongQueueThatChangesAllTheTime() {
    for (int id = 0; id < 60; id++) {
      add(id, TWO_LEFT);
    }
    Set<String> seen = new TreeSet<>();
    for (int round = 0; round < 16; round++) {
      seen.addAll(next(10));
      add(60 + round, TWO_LEFT);
      remove(2 * round);
    }
    for (int id = 0; id < 70; id++) {
      boolean wasTakenOut = id % 2 == 0 && id < 32;
      assertTrue(id + " of " + seen, wasTakenOut || seen.contains("2:" + id));
    }
  }
}
