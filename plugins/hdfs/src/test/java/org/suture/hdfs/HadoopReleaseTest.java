package org.suture.hdfs;

import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import org.junit.Test;

public class HadoopReleaseTest {
  @Test
  public void releasesThatNobodyTriedAreNamedAndRefused() {
    for (String known : new String[] {"3.3.0", "3.3.6", "3.4.2", "3.5.0", "3.4.1-vendor-7"}) {
      HadoopRelease.check(known);
    }
    HadoopRelease.check();
    for (String other : new String[] {"3.2.4", "2.10.2", "3.6.0", "4.0.0", "Unknown", "3.40.1", ""}) {
      String why = assertThrows(other, IllegalStateException.class,
          () -> HadoopRelease.check(other)).getMessage();
      assertTrue(why, why.contains("Hadoop " + other + ",") && why.contains("3.3, 3.4 and 3.5"));
    }
  }
}
