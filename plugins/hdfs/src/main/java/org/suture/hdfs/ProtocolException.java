package org.suture.hdfs;

import java.io.IOException;

/** The other end says what the protocol does not know: the connection is of no more use. */
final class ProtocolException extends IOException {
  private static final long serialVersionUID = 1;

  ProtocolException(String message) {
    super(message);
  }
}
