package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.List;
import org.apache.hadoop.hdfs.protocol.Block;
import org.apache.hadoop.hdfs.protocol.SystemErasureCodingPolicies;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockInfoStriped;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeManager;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.junit.Before;
import org.junit.Test;
import org.mockito.Mockito;

/** What becomes of a batch of claims of which the NameNode cannot judge one. */
public class ClaimTableTest {
  private static final long FLAWED = Long.MIN_VALUE + 16;
  private static final long OTHER = Long.MIN_VALUE + 32;
  private static final long STAMP = 1001;

  private final BlockManager blocks = Mockito.mock(BlockManager.class);
  private ClaimTable table;

  @Before
  public void make() throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true);
    DatanodeManager nodes = Mockito.mock(DatanodeManager.class);
    Mockito.when(blocks.getDatanodeManager()).thenReturn(nodes);
    FSNamesystem namesystem = Mockito.mock(FSNamesystem.class);
    table = new ClaimTable(blocks, new NamesystemLock(namesystem),
        new GroupView(namesystem, blocks), 60_000);
  }

  private static Message claim(long repair, long group) {
    Message target = Message.empty().with("index", 0L).with("node", "somewhere");
    return Message.empty().with("repair", repair).with("group", group).with("stamp", STAMP)
        .withAll("targets", List.of(target));
  }

  /** Claims both groups; the answer about the flawed one, where the other is judged as ever. */
  private Message claimBoth() throws Exception {
    List<Message> answers =
        table.claim(List.of(claim(1, FLAWED), claim(2, OTHER))).messages("claims");
    assertEquals(2, answers.size());
    assertEquals("the group is gone", answers.get(1).text("why"));
    assertTrue(table.all().isEmpty());
    return answers.get(0);
  }

  @Test
  public void oneThatThePlacementPolicyFailsOverIsRefusedAlone() throws Exception {
    Mockito.when(blocks.getStoredBlock(new Block(FLAWED)))
        .thenThrow(new IllegalStateException("no such storage policy")).thenReturn(null);
    Message refused = claimBoth();
    assertEquals("it could not be judged: no such storage policy", refused.text("why"));
    assertFalse(refused.has("group"));
  }

  @Test
  public void oneThatFailsUnderTheLockIsRefusedAloneAndItsGroupTold() throws Exception {
    BlockInfoStriped group = Mockito.mock(BlockInfoStriped.class);
    Mockito.when(group.getErasureCodingPolicy())
        .thenReturn(SystemErasureCodingPolicies.getPolicies().get(0));
    Mockito.when(group.getGenerationStamp()).thenReturn(STAMP);
    Mockito.when(group.isComplete()).thenThrow(new NoSuchMethodError("isComplete"));
    Mockito.when(blocks.getStoredBlock(new Block(FLAWED))).thenReturn(group);
    try (Said said = new Said()) {
      for (int i = 0; i < 2; i++) {
        Message refused = claimBoth();
        assertEquals("it could not be judged: isComplete", refused.text("why"));
        assertTrue(refused.has("group"));
      }
      assertEquals(said.lines().toString(), 1, said.lines().size());
    }
  }
}
