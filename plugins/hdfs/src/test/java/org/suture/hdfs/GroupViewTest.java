package org.suture.hdfs;

import static org.junit.Assert.assertThrows;

import org.apache.hadoop.hdfs.server.blockmanagement.BlockManager;
import org.apache.hadoop.hdfs.server.namenode.FSDirectory;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;
import org.junit.Test;
import org.mockito.ArgumentMatchers;
import org.mockito.Mockito;

/** What a NameNode is asked of groups when it starts, before there is any. */
public class GroupViewTest {
  @Test
  public void whatAHadoopLacksShowsAtTheStart() {
    BlockManager blocks = Mockito.mock(BlockManager.class);
    FSNamesystem namesystem = Mockito.mock(FSNamesystem.class);
    FSDirectory directory = Mockito.mock(FSDirectory.class);
    Mockito.when(namesystem.getFSDirectory()).thenReturn(directory);
    GroupView view = new GroupView(namesystem, blocks);
    view.selfTest();
    Mockito.when(blocks.getCorruptReplicas(ArgumentMatchers.any()))
        .thenThrow(new NoSuchMethodError("getCorruptReplicas"));
    assertThrows(NoSuchMethodError.class, view::selfTest);
  }
}
