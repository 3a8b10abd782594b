package org.apache.hadoop.io.erasurecode.rawcoder;

import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.suture.hdfs.PluginLog;

/**
 * The coders of the codec {@code butterfly}: what lies behind {@link
 * ButterflyRawErasureCoderFactory}.
 */
public final class ButterflyCoders implements RawErasureCoderFactory {
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
    return ButterflyRawErasureCoderFactory.CODER;
  }

  @Override
  public String getCodecName() {
    return ButterflyRawErasureCoderFactory.CODEC;
  }
}
