package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import org.apache.hadoop.conf.Configuration;
import org.junit.BeforeClass;
import org.junit.ClassRule;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

public class CredentialsTest {
  @ClassRule
  public static final TemporaryFolder CERTS = new TemporaryFolder();
  private static Authority authority;
  private static Path keeper;
  private static Path coordinator;

  @Rule
  public final TemporaryFolder folder = new TemporaryFolder();

  @BeforeClass
  public static void certify() throws Exception {
    authority = new Authority(CERTS.getRoot().toPath());
    keeper = authority.issue("keeper/namenode", -1, 20);
    coordinator = authority.issue("coordinator/c", -1, 20);
  }

  private static String refusal(String... keys) {
    Configuration conf = new Configuration(false);
    for (int i = 0; i < keys.length; i += 2) {
      conf.set(keys[i], keys[i + 1]);
    }
    return assertThrows(IOException.class, () -> NameNodeSettings.of(conf)).getMessage();
  }

  private static void says(String error, String... words) {
    for (String word : words) {
      assertTrue(error, error.contains(word));
    }
  }

  private static String flaw(Path of) {
    return assertThrows(IOException.class, () -> new Credentials(of).context()).getMessage();
  }

  @Test
  public void missingOrWrongKeysAreNamedWithWhatToDo() throws Exception {
    says(refusal(), "suture.coordinator");
    for (String no : new String[] {"host", "host:port", "host:0", "host:65536", "host:99999", ":1"}) {
      says(refusal(NameNodeSettings.COORDINATOR, no), "HOST:PORT", "'" + no + "'");
    }
    says(refusal(NameNodeSettings.COORDINATOR, "192.0.2.7:7410"), "suture cert node NAME --keeper");
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.COORDINATOR, "127.0.0.1:65535");
    assertEquals(65535, NameNodeSettings.of(conf).port);
    conf.set(NameNodeSettings.COORDINATOR, "[::1]:7411");
    assertEquals("::1", NameNodeSettings.of(conf).host);
  }

  @Test
  public void credentialsThatAreOfNoUseAreNoReasonToStayOffForGood() throws Exception {
    Path empty = folder.getRoot().toPath();
    Configuration conf = new Configuration(false);
    conf.set(NameNodeSettings.COORDINATOR, "192.0.2.7:7410");
    conf.set(NameNodeSettings.CREDENTIALS, empty.toString());
    NameNodeSettings settings = NameNodeSettings.of(conf);
    says(flaw(empty), "tls.crt");
    for (String file : new String[] {"tls.crt", "tls.key", "ca.crt"}) {
      Files.copy(keeper.resolve(file), empty.resolve(file), StandardCopyOption.COPY_ATTRIBUTES);
    }
    settings.credentials.context();
  }

  @Test
  public void aCertificateThatHasEndedIsSaidToHave() throws Exception {
    says(flaw(authority.issue("keeper/ended", -20, 10)), "of no use", "suture cert");
    says(flaw(authority.issue("keeper/early", 5, 10)), "of no use");
  }

  @Test
  public void aKeyThatOthersMayReadIsNotUsed() throws Exception {
    Path open = authority.issue("keeper/open", -1, 20);
    Files.setPosixFilePermissions(open.resolve("tls.key"),
        java.nio.file.attribute.PosixFilePermissions.fromString("rw-r--r--"));
    says(flaw(open), "tls.key", "chmod");
  }

  /** What the NameNode's end makes of a coordinator with these credentials. */
  private static String met(Path own, Path other) throws Exception {
    try (SSLServerSocket listener = (SSLServerSocket) authority.server(other)
        .getServerSocketFactory().createServerSocket(0)) {
      CompletableFuture<Void> served = CompletableFuture.runAsync(() -> {
        try (SSLSocket socket = (SSLSocket) listener.accept()) {
          socket.startHandshake();
          socket.getInputStream().read();
        } catch (IOException e) {
          // The other end says what is wrong.
        }
      });
      try (SSLSocket socket = (SSLSocket) new Credentials(own).context().getSocketFactory()
          .createSocket("127.0.0.1", listener.getLocalPort())) {
        socket.setSoTimeout(20_000);
        socket.startHandshake();
        return Credentials.peer(socket.getSession());
      } catch (IOException e) {
        return "refused: " + PluginLog.reason(e);
      } finally {
        served.join();
      }
    }
  }

  @Test
  public void bothEndsProveWhoTheyAre() throws Exception {
    assertEquals("coordinator/c", met(keeper, coordinator));
    Authority stranger = new Authority(folder.newFolder().toPath());
    Path told = stranger.issue("keeper/namenode", -1, 20);
    says(met(told, coordinator), "refused");
  }

  @Test
  public void aCoordinatorWhoseCertificateHasEndedIsNotSpokenTo() throws Exception {
    says(met(keeper, authority.issue("coordinator/ended", -20, 10)), "refused");
  }

  @Test
  public void aCoordinatorThatIsRevokedIsNotSpokenTo() throws Exception {
    Path own = authority.issue("keeper/told", -1, 20);
    Path revoked = authority.issue("coordinator/revoked", -1, 20);
    assertEquals("coordinator/revoked", met(own, revoked));
    authority.revoke(revoked, own);
    says(met(own, revoked), "refused");
    assertEquals("coordinator/c", met(own, coordinator));
  }
}
