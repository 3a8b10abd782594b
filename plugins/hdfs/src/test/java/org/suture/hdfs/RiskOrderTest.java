package org.suture.hdfs;

import static org.junit.Assert.assertEquals;

import java.util.List;
import org.junit.Test;

public class RiskOrderTest {
  private final RiskOrder order = new RiskOrder(3);

  @Test
  public void whatIsMostAtRiskIsFirst() {
    order.put(-16, 2);
    order.put(-32, 0);
    order.put(-48, 2);
    order.put(-32, 0);
    assertEquals(List.of(-32L, -16L, -48L), order.groups());
    // One that has lost more since.
    order.put(-48, 0);
    assertEquals(List.of(-32L, -48L, -16L), order.groups());
    order.remove(-32);
    order.remove(-32);
    assertEquals(List.of(-48L, -16L), order.groups());
  }

  @Test
  public void whereThereAreTooManyWhatIsLessAtRiskGivesWay() {
    order.put(-16, 2);
    order.put(-32, 2);
    order.put(-48, 3);
    order.put(-64, 2);
    assertEquals(List.of(-16L, -32L, -64L), order.groups());
    order.put(-80, 2);
    order.put(-96, 4);
    assertEquals("as much at risk as those that are there", List.of(-16L, -32L, -64L),
        order.groups());
    order.put(-112, 1);
    assertEquals(List.of(-112L, -32L, -64L), order.groups());
    // To move is not to be one more.
    order.put(-64, 0);
    assertEquals(List.of(-64L, -112L, -32L), order.groups());
  }
}
