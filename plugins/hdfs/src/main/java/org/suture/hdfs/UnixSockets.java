package org.suture.hdfs;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.ConnectException;
import java.net.ProtocolFamily;
import java.net.SocketAddress;
import java.net.SocketOption;
import java.net.StandardProtocolFamily;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.security.Principal;

/**
 * Unix sockets and whoever is at their other end, as a JDK from 16 on has them. The jar is for JDK
 * 11, whose classes know nothing of these, so they are found when the plugin starts.
 */
final class UnixSockets {
  private final ProtocolFamily family;
  private final Method address;
  private final SocketOption<?> peer;
  private final Method peerUser;

  UnixSockets() throws ReflectiveOperationException {
    try {
      family = StandardProtocolFamily.valueOf("UNIX");
      address = Class.forName("java.net.UnixDomainSocketAddress").getMethod("of", Path.class);
      peer = (SocketOption<?>)
          Class.forName("jdk.net.ExtendedSocketOptions").getField("SO_PEERCRED").get(null);
      peerUser = Class.forName("jdk.net.UnixDomainPrincipal").getMethod("user");
    } catch (IllegalArgumentException | ReflectiveOperationException e) {
      throw new ReflectiveOperationException("Java " + System.getProperty("java.version")
          + " has no unix sockets: run this DataNode with Java 17 or later", e);
    }
  }

  ServerSocketChannel listen(Path path) throws IOException {
    ServerSocketChannel listener = (ServerSocketChannel) call(open(ServerSocketChannel.class), null,
        family);
    try {
      listener.bind((SocketAddress) call(address, null, path));
      return listener;
    } catch (IOException e) {
      listener.close();
      throw e;
    }
  }

  /** Whether a process listens at this socket. */
  boolean isServed(Path path) throws IOException {
    try (SocketChannel probe = (SocketChannel) call(open(SocketChannel.class), null, family)) {
      // One whose process takes no connections must not be waited for.
      probe.configureBlocking(false);
      return probe.connect((SocketAddress) call(address, null, path));
    } catch (ConnectException e) {
      return false;
    }
  }

  /** The name of the user whose process is at the other end, as the kernel says. */
  String user(SocketChannel connection) throws IOException {
    return ((Principal) call(peerUser, connection.getOption(peer))).getName();
  }

  private static Method open(Class<?> of) throws IOException {
    try {
      return of.getMethod("open", ProtocolFamily.class);
    } catch (NoSuchMethodException e) {
      throw new IOException("no unix sockets", e);
    }
  }

  private static Object call(Method method, Object on, Object... with) throws IOException {
    try {
      return method.invoke(on, with);
    } catch (InvocationTargetException e) {
      throw new IOException(PluginLog.reason(e.getCause()), e.getCause());
    } catch (IllegalAccessException e) {
      throw new IOException(method + " cannot be called", e);
    }
  }
}
