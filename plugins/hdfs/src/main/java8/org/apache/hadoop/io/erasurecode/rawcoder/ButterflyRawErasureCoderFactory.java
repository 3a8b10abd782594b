package org.apache.hadoop.io.erasurecode.rawcoder;

import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.suture.hdfs.Entries;
import org.suture.hdfs.PluginLog;

/**
 * The codec {@code butterfly}, as Hadoop's ServiceLoader finds it in NameNode, DataNodes and
 * clients.
 *
 * It stands in Hadoop's package because a raw coder can only be written there: its methods have
 * types that are the package's own. It is an entry, see {@link Entries}: every process that has the
 * jar in its class path loads it, also one that has nothing to do with this codec.
 */
public final class ButterflyRawErasureCoderFactory implements RawErasureCoderFactory {
  public static final String CODEC = "butterfly";
  static final String CODER = "butterfly_java";
  private static final String CODERS =
      "org.apache.hadoop.io.erasurecode.rawcoder.ButterflyCoders";

  private RawErasureCoderFactory coders;

  @Override
  public RawErasureEncoder createEncoder(ErasureCoderOptions options) {
    return coders().createEncoder(options);
  }

  @Override
  public RawErasureDecoder createDecoder(ErasureCoderOptions options) {
    return coders().createDecoder(options);
  }

  /** Loaded when a file of this codec is coded, and not before. */
  private synchronized RawErasureCoderFactory coders() {
    try {
      if (coders == null) {
        coders = Entries.load(RawErasureCoderFactory.class, CODERS);
      }
      return coders;
    } catch (Exception | LinkageError e) {
      String why = "the codec " + CODEC + " is not there: " + PluginLog.reason(e);
      // Whoever asked for the coder says only that there is none.
      PluginLog.LOG.error("Suture: {}", why);
      throw new IllegalArgumentException(why, e);
    }
  }

  @Override
  public String getCoderName() {
    return CODER;
  }

  @Override
  public String getCodecName() {
    return CODEC;
  }
}
