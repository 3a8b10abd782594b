package org.suture.hdfs;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;

/**
 * Makes credentials as {@code suture cert} does, by the JDK's own tool, all with one key, for
 * tests.
 */
final class Authority {
  private static final String PASSWORD = "of-no-use";

  private final Path folder;
  private final String request;
  private final String root;
  private final PrivateKey key;

  Authority(Path folder) throws Exception {
    this.folder = folder;
    String[] curve = {"-keyalg", "EC", "-groupname", "secp256r1"};
    keytool("", "-genkeypair", "-alias", "ca", curve[0], curve[1], curve[2], curve[3], "-dname",
        "CN=tests", "-validity", "30", "-ext", "bc:critical=ca:true", "-ext",
        "ku:critical=keyCertSign,cRLSign");
    keytool("", "-genkeypair", "-alias", "own", curve[0], curve[1], curve[2], curve[3], "-dname",
        "CN=own");
    request = keytool("", "-certreq", "-alias", "own");
    root = keytool("", "-exportcert", "-alias", "ca", "-rfc");
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(folder.resolve("keys.p12"))) {
      keys.load(in, PASSWORD.toCharArray());
    }
    key = (PrivateKey) keys.getKey("own", PASSWORD.toCharArray());
  }

  /** A folder of credentials for {@code ROLE/NAME}, good from that day on for so many days. */
  Path issue(String identity, int day, int days) throws Exception {
    String certificate = keytool(request, "-gencert", "-alias", "ca", "-rfc", "-startdate",
        (day < 0 ? "" : "+") + day + "d", "-validity", String.valueOf(days), "-ext",
        "san=uri:suture://" + identity, "-ext", "ku:critical=digitalSignature");
    Path to = Files.createDirectory(folder.resolve(identity.replace('/', '-')));
    Files.writeString(to.resolve("tls.crt"), certificate);
    Files.writeString(to.resolve("ca.crt"), root);
    String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(key.getEncoded());
    Path pem = to.resolve("tls.key");
    Files.writeString(pem, "-----BEGIN PRIVATE KEY-----\n" + text + "\n-----END PRIVATE KEY-----\n");
    Files.setPosixFilePermissions(pem, PosixFilePermissions.fromString("rw-------"));
    return to;
  }

  static X509Certificate certificate(Path issued) throws Exception {
    byte[] pem = Files.readAllBytes(issued.resolve("tls.crt"));
    return (X509Certificate) CertificateFactory.getInstance("X.509")
        .generateCertificate(new ByteArrayInputStream(pem));
  }

  /** What a server with these credentials talks with, whatever they are worth. */
  SSLContext server(Path issued) throws Exception {
    KeyStore own = KeyStore.getInstance("PKCS12");
    own.load(null, null);
    own.setKeyEntry("own", key, new char[0], new Certificate[] {certificate(issued)});
    KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
    keys.init(own, new char[0]);
    SSLContext context = SSLContext.getInstance("TLSv1.3");
    context.init(keys.getKeyManagers(), null, null);
    return context;
  }

  /** Has a folder know that credentials are revoked. */
  void revoke(Path issued, Path toldTo) throws Exception {
    Files.writeString(toldTo.resolve("ca.crl"), keytool("", "-gencrl", "-alias", "ca", "-rfc", "-id",
        certificate(issued).getSerialNumber().toString()));
  }

  private String keytool(String input, String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Paths.get(System.getProperty("java.home"), "bin", "keytool").toString());
    command.addAll(List.of(arguments));
    command.addAll(List.of("-keystore", "keys.p12", "-storepass", PASSWORD));
    Process tool = new ProcessBuilder(command).directory(folder.toFile())
        .redirectError(ProcessBuilder.Redirect.DISCARD).start();
    tool.getOutputStream().write(input.getBytes(StandardCharsets.US_ASCII));
    tool.getOutputStream().close();
    String output = new String(tool.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
    if (tool.waitFor() != 0) {
      throw new IOException("keytool " + command + ": " + output);
    }
    return output;
  }
}
