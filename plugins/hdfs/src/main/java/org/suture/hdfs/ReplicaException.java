package org.suture.hdfs;

import java.io.IOException;

/** A replica that cannot be read or made: an answer to the agent, not the end of its connection. */
final class ReplicaException extends IOException {
  static final String MISSING = "missing";
  static final String CORRUPT = "corrupt";
  static final String UNREADABLE = "unreadable";
  static final String NO_SPACE = "no-space";
  static final String FAILED = "failed";

  private static final long serialVersionUID = 1;

  final String kind;

  ReplicaException(String kind, String why) {
    super(why);
    this.kind = kind;
  }

  ReplicaException(String kind, String why, Throwable cause) {
    super(why + ": " + PluginLog.reason(cause), cause);
    this.kind = kind;
  }
}
