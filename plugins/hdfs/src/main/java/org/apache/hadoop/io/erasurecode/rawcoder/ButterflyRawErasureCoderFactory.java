package org.apache.hadoop.io.erasurecode.rawcoder;

import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.suture.hdfs.PluginLog;

/**
 * The codec {@code butterfly}, as Hadoop's ServiceLoader finds it in NameNode, DataNodes and clients.
 *
 * It stands in Hadoop's package because a raw coder can only be written there: its methods have
 * types that are the package's own.
 */
public final class ButterflyRawErasureCoderFactory implements RawErasureCoderFactory {
  public static final String CODEC = "butterfly";
  private static final String CODER = "butterfly_java";

  @Override
  public RawErasureEncoder createEncoder(ErasureCoderOptions options) {
    try {
      return new ButterflyRawEncoder(options);
    } catch (IllegalArgumentException e) {
      throw told(e);
    }
  }

  @Override
  public RawErasureDecoder createDecoder(ErasureCoderOptions options) {
    try {
      return new ButterflyRawDecoder(options);
    } catch (IllegalArgumentException e) {
      throw told(e);
    }
  }

  /** Whoever asked for the coder says only that there is none. */
  private static IllegalArgumentException told(IllegalArgumentException error) {
    PluginLog.LOG.error("Suture: {}", error.getMessage());
    return error;
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
