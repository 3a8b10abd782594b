package org.suture.hdfs;

/** What a session with the coordinator is about: the namespace of a NameNode. */
interface Served {
  String blockPool();

  /** Whether this NameNode is the active one. */
  boolean isActive();

  /** Whether it can be asked: it is the active one, and not in safe mode. */
  boolean isServing();

  /** The coordinator knows nothing yet. */
  void beginSession();

  Message answer(String op, Message request) throws ProtocolException;

  /** It cannot be asked for now: what it was asked for before counts no more. */
  void pause();

  /** The session has ended: HDFS repairs by itself, at once. */
  void releaseAll();
}
