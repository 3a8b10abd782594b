package org.suture.hdfs;

import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.Set;
import org.junit.After;
import org.junit.Test;

public class LeaseTest {
  @After
  public void end() {
    Lease.end();
  }

  @Test
  public void aLeaseEndsByItself() throws Exception {
    assertFalse(Lease.isHeld());
    Lease.renew(50, Set.of());
    assertTrue(Lease.covers("/f"));
    Thread.sleep(80);
    assertFalse(Lease.covers("/f"));
  }

  @Test
  public void aLeaseLeavesWhatItIsToldToAndEndsWhenItIsGivenUp() {
    Lease.renew(60_000, Set.of("/left"));
    assertTrue(Lease.covers("/f"));
    assertFalse(Lease.covers("/left"));
    Lease.renew(60_000, Set.of());
    assertTrue(Lease.covers("/left"));
    Lease.end();
    assertFalse(Lease.covers("/f"));
    Lease.renew(0, Set.of());
    assertFalse(Lease.isHeld());
  }
}
