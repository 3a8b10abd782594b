package org.suture.hdfs;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;

/** The coordinator's end of a conversation, for tests: it is connected to, and asks. */
final class FakeCoordinator implements Closeable {
  private final ServerSocket listener;
  private Frames plugin;

  FakeCoordinator() throws IOException {
    listener = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    listener.setSoTimeout(20_000);
  }

  String address() {
    return "127.0.0.1:" + listener.getLocalPort();
  }

  /** Waits for the plugin; what it says of itself. */
  Message welcome() throws IOException {
    Socket socket = listener.accept();
    socket.setSoTimeout(20_000);
    plugin = new Frames(socket.getInputStream(), socket.getOutputStream(), socket);
    Message greeting = plugin.expect();
    plugin.send(Message.empty().with("protocol", Frames.PROTOCOL));
    return greeting;
  }

  /** Waits for the plugin, and will not have it. */
  void refuse(String why) throws IOException {
    try (Socket socket = listener.accept()) {
      socket.setSoTimeout(20_000);
      Frames greeted = new Frames(socket.getInputStream(), socket.getOutputStream(), socket);
      greeted.expect();
      greeted.send(Message.error("refused", why));
    }
  }

  Message ask(Message question) throws IOException {
    plugin.send(question);
    Message answer = plugin.expect();
    if (answer.has("error")) {
      throw new IOException(answer.text("why"));
    }
    return answer;
  }

  Message ask(String op) throws IOException {
    return ask(Message.empty().with("op", op));
  }

  void lease(long millis) throws IOException {
    ask(Message.empty().with("op", "lease").with("millis", millis).withAll("leave", List.of()));
  }

  void hangUp() throws IOException {
    plugin.close();
  }

  @Override
  public void close() throws IOException {
    if (plugin != null) {
      plugin.close();
    }
    listener.close();
  }
}
