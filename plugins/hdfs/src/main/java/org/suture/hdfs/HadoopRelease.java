package org.suture.hdfs;

import java.util.regex.Pattern;
import org.apache.hadoop.util.VersionInfo;

/** Which Hadoop the plugins run in: of others than they know they touch nothing. */
final class HadoopRelease {
  /** Releases whose internals the plugins know. */
  private static final Pattern KNOWN = Pattern.compile("3\\.[345]\\..*");

  private HadoopRelease() {
  }

  /** Fails in a Hadoop that is not known. */
  static void check() {
    check(VersionInfo.getVersion());
  }

  static void check(String version) {
    if (!KNOWN.matcher(version).matches()) {
      throw new IllegalStateException(
          "this is Hadoop " + version + ", and the plugin knows 3.3, 3.4 and 3.5");
    }
  }
}
