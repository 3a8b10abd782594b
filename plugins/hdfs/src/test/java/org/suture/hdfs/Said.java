package org.suture.hdfs;

import java.io.Closeable;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Collectors;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/** What the plugins say in the daemon's log while this is open, for tests. */
final class Said extends AppenderSkeleton implements Closeable {
  private final Logger logger = Logger.getLogger(PluginLog.LOG.getName());
  private final Level before = logger.getLevel();
  private final List<LoggingEvent> events = new CopyOnWriteArrayList<>();

  Said() {
    logger.setLevel(Level.INFO);
    logger.addAppender(this);
  }

  List<String> lines() {
    return events.stream().map(LoggingEvent::getRenderedMessage).collect(Collectors.toList());
  }

  @Override
  protected void append(LoggingEvent event) {
    events.add(event);
  }

  @Override
  public boolean requiresLayout() {
    return false;
  }

  @Override
  public void close() {
    logger.removeAppender(this);
    logger.setLevel(before);
  }
}
