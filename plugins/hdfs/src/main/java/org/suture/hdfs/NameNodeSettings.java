package org.suture.hdfs;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;

/** The keys of the NameNode's configuration that are Suture's. */
final class NameNodeSettings {
  static final String COORDINATOR = "suture.coordinator";
  static final String CREDENTIALS = "suture.credentials";

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
    if (colon <= 0 || !coordinator.substring(colon + 1).matches("[0-9]{1,5}")) {
      throw new IOException(COORDINATOR + " is '" + coordinator
          + "': set it to HOST:PORT, as the coordinator's [hdfs] listen says");
    }
    String host = coordinator.substring(0, colon).replaceAll("^\\[|\\]$", "");
    int port = Integer.parseInt(coordinator.substring(colon + 1));
    String folder = conf.getTrimmed(CREDENTIALS, "");
    Credentials credentials = null;
    if (!folder.isEmpty()) {
      Path path = Paths.get(folder);
      credentials = new Credentials(path);
      // What cannot be used is said at the start, not at each connection.
      credentials.context();
    } else if (!InetAddress.getByName(host).isLoopbackAddress()) {
      throw new IOException(COORDINATOR + " is on another machine and " + CREDENTIALS
          + " is not set: name the folder that 'suture cert node NAME --keeper' made");
    }
    return new NameNodeSettings(host, port, credentials);
  }

  InetSocketAddress address() {
    return new InetSocketAddress(host, port);
  }

  @Override
  public String toString() {
    return host + ":" + port;
  }
}
