package org.suture.hdfs;

/** What a plugin does once it is loaded: the part behind its entry, see {@link Entries}. */
interface PluginPart {
  /** Begins; what it throws is why the daemon goes on without it. */
  void start(Object service) throws Exception;

  void stop();
}
