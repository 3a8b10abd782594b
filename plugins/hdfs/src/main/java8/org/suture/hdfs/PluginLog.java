package org.suture.hdfs;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Where the plugin says what operators have to know. */
public final class PluginLog {
  public static final Logger LOG = LoggerFactory.getLogger("org.suture.hdfs");

  private PluginLog() {
  }

  /** What went wrong, in one line; with the reason below where that says more. */
  public static String reason(Throwable error) {
    Throwable cause = error.getCause();
    String own = error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
    boolean isLack = error instanceof ClassNotFoundException || error instanceof NoClassDefFoundError;
    // They name the class, and say nothing about it.
    if (isLack && own.indexOf(' ') < 0) {
      own = "a class is not there, " + own.replace('/', '.')
          + ": Suture's jar is not whole, or not for this Hadoop";
    }
    boolean saysMore = cause != null && cause.getMessage() != null && !own.contains(cause.getMessage());
    return saysMore ? own + ": " + cause.getMessage() : own;
  }
}
