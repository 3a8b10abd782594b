package org.suture.hdfs;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DFSUtil;

/** The keys of the NameNode's configuration that are Suture's. */
final class NameNodeSettings {
  static final String COORDINATOR = "suture.coordinator";
  static final String CREDENTIALS = "suture.credentials";
  private static final int PORT_MAX = 65_535;
  /** After how many seconds the NameNode takes over what is pending; 5 minutes by default. */
  private static final String PENDING_TIMEOUT = "dfs.namenode.reconstruction.pending.timeout-sec";
  private static final long PENDING_SECONDS = 300;
  private static final long RENEW_MILLIS_MAX = 60_000;

  final String host;
  final int port;
  /** None: connections are plain, and only to this machine. */
  final Credentials credentials;
  /** How often what is claimed is pending anew: often enough that the NameNode never takes it over. */
  final long renewMillis;

  private NameNodeSettings(String host, int port, Credentials credentials, long renewMillis) {
    this.host = host;
    this.port = port;
    this.credentials = credentials;
    this.renewMillis = renewMillis;
  }

  static NameNodeSettings of(Configuration conf) throws IOException {
    String coordinator = own(conf, COORDINATOR);
    int colon = coordinator.lastIndexOf(':');
    int port = colon <= 0 ? 0 : port(coordinator.substring(colon + 1));
    if (port == 0) {
      throw new IOException(COORDINATOR + " is '" + coordinator
          + "': set it to HOST:PORT, as the coordinator's [hdfs] listen says");
    }
    String host = coordinator.substring(0, colon).replaceAll("^\\[|\\]$", "");
    String folder = own(conf, CREDENTIALS);
    Credentials credentials = null;
    if (!folder.isEmpty()) {
      // Read for each connection: others may lie there by then, so what is wrong with them is said
      // there.
      credentials = new Credentials(Paths.get(folder));
    } else if (!InetAddress.getByName(host).isLoopbackAddress()) {
      throw new IOException(COORDINATOR + " is on another machine and " + CREDENTIALS
          + " is not set: name the folder that 'suture cert node NAME --keeper' made");
    }
    return new NameNodeSettings(host, port, credentials, renewMillis(conf));
  }

  /** That of the NameNode's nameservice, as of `KEY.NAMESERVICE`, or that of all: one file serves many. */
  private static String own(Configuration conf, String key) {
    String nameservice = DFSUtil.getNamenodeNameServiceId(conf);
    String ofAll = conf.getTrimmed(key, "");
    return nameservice == null ? ofAll : conf.getTrimmed(key + "." + nameservice, ofAll);
  }

  private static long renewMillis(Configuration conf) {
    long seconds = conf.getLong(PENDING_TIMEOUT, PENDING_SECONDS);
    return Math.min((seconds > 0 ? seconds : PENDING_SECONDS) * 1000 / 3, RENEW_MILLIS_MAX);
  }

  /** 0 where it is none. */
  private static int port(String text) {
    int port = text.matches("[0-9]{1,5}") ? Integer.parseInt(text) : 0;
    return port <= PORT_MAX ? port : 0;
  }

  InetSocketAddress address() {
    return new InetSocketAddress(host, port);
  }

  @Override
  public String toString() {
    return host + ":" + port;
  }
}
