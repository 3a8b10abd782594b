package org.suture.hdfs;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.FilterInputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;

/**
 * The bytes of a channel, moved in small steps: for each thread the JDK keeps a buffer outside of
 * the heap that is as large as the largest step has been.
 */
final class ChannelSteps {
  static final int STEP_BYTES = 1 << 16;
  /** Fields of frames are a few bytes each. */
  private static final int FIELDS_BYTES = 1 << 13;

  private ChannelSteps() {
  }

  static Frames frames(SocketChannel channel) {
    return new Frames(new BufferedInputStream(in(Channels.newInputStream(channel)), FIELDS_BYTES),
        new BufferedOutputStream(out(Channels.newOutputStream(channel)), FIELDS_BYTES), channel);
  }

  static InputStream in(InputStream whole) {
    return new FilterInputStream(whole) {
      @Override
      public int read(byte[] into, int from, int count) throws IOException {
        return in.read(into, from, Math.min(count, STEP_BYTES));
      }
    };
  }

  static OutputStream out(OutputStream whole) {
    return new FilterOutputStream(whole) {
      @Override
      public void write(byte[] bytes, int from, int count) throws IOException {
        for (int done = 0; done < count; done += STEP_BYTES) {
          out.write(bytes, from + done, Math.min(count - done, STEP_BYTES));
        }
      }
    };
  }
}
