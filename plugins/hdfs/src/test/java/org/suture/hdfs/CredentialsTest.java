package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class CredentialsTest {
  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  private static String refusal(String... keys) {
    Configuration conf = new Configuration(false);
    for (int i = 0; i < keys.length; i += 2) {
      conf.set(keys[i], keys[i + 1]);
    }
    return assertThrows(IOException.class, () -> NameNodeSettings.of(conf)).getMessage();
  }

  private static void says(String error, String word) {
    assertEquals(error, true, error.contains(word));
  }

  @Test
  public void missingOrWrongKeysAreNamedWithWhatToDo() throws Exception {
    says(refusal(), "suture.coordinator");
    says(refusal(NameNodeSettings.COORDINATOR, "host"), "HOST:PORT");
    says(refusal(NameNodeSettings.COORDINATOR, "host:port"), "HOST:PORT");
    says(refusal(NameNodeSettings.COORDINATOR, "192.0.2.7:7410"), "suture cert node NAME --keeper");
    says(refusal(NameNodeSettings.COORDINATOR, "127.0.0.1:7410", NameNodeSettings.CREDENTIALS,
        folder.getRoot().getPath()), "tls.crt");
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.COORDINATOR, "127.0.0.1:7410");
    assertEquals(7410, NameNodeSettings.of(conf).port);
    conf.set(NameNodeSettings.COORDINATOR, "[::1]:7411");
    assertEquals("::1", NameNodeSettings.of(conf).host);
  }
}
