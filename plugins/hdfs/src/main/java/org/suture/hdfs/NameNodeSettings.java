package org.suture.hdfs;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;

/** The keys of the NameNode's configuration that are Suture's. */
final class NameNodeSettings {
  static final String COORDINATOR = "suture.coordinator";
  static final String CREDENTIALS = "suture.credentials";
  private static final int PORT_MAX = 65_535;

  final String host;
  final int port;
  /** None: connections are plain, and only to this machine. */
  final Credentials credentials;

  private NameNodeSettings(String host, int port, Credentials credentials) {
    this.host = host;
    this.port = port;
    this.credentials = credentials;
  }

  static NameNodeSettings of(Configuration conf) throws IOException {
    String coordinator = conf.getTrimmed(COORDINATOR, "");
    int colon = coordinator.lastIndexOf(':');
    int port = colon <= 0 ? 0 : port(coordinator.substring(colon + 1));
    if (port == 0) {
      throw new IOException(COORDINATOR + " is '" + coordinator
          + "': set it to HOST:PORT, as the coordinator's [hdfs] listen says");
    }
    String host = coordinator.substring(0, colon).replaceAll("^\\[|\\]$", "");
    String folder = conf.getTrimmed(CREDENTIALS, "");
    Credentials credentials = null;
    if (!folder.isEmpty()) {
      // Read for each connection: others may lie there by then, so what is wrong with them is said
      // there.
      credentials = new Credentials(Paths.get(folder));
    } else if (!InetAddress.getByName(host).isLoopbackAddress()) {
      throw new IOException(COORDINATOR + " is on another machine and " + CREDENTIALS
          + " is not set: name the folder that 'suture cert node NAME --keeper' made");
    }
    return new NameNodeSettings(host, port, credentials);
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
