package org.suture.hdfs;

import static org.junit.Assert.assertEquals;

import org.apache.hadoop.conf.Configuration;
import org.junit.Test;

/** What the NameNode's configuration says of the plugin, and what follows from it. */
public class NameNodeSettingsTest {
  private final Configuration conf = new Configuration(false);

  @Test
  public void eachNameserviceOfAFederationHasACoordinatorOfItsOwn() throws Exception {
    conf.set("suture.coordinator", "127.0.0.1:1001");
    conf.set("suture.coordinator.ns2", "127.0.0.1:1002");
    assertEquals(1001, NameNodeSettings.of(conf).port);
    for (String[] nameservice : new String[][] {{"ns1", "1001"}, {"ns2", "1002"}}) {
      conf.set("dfs.nameservice.id", nameservice[0]);
      assertEquals(nameservice[1], String.valueOf(NameNodeSettings.of(conf).port));
    }
  }

  @Test
  public void whatIsClaimedIsPendingAnewBeforeTheNameNodeTakesItOver() throws Exception {
    conf.set("suture.coordinator", "127.0.0.1:1001");
    assertEquals(60_000, NameNodeSettings.of(conf).renewMillis);
    conf.setInt("dfs.namenode.reconstruction.pending.timeout-sec", 30);
    assertEquals(10_000, NameNodeSettings.of(conf).renewMillis);
    conf.setInt("dfs.namenode.reconstruction.pending.timeout-sec", -1);
    assertEquals(60_000, NameNodeSettings.of(conf).renewMillis);
  }
}
