package org.suture.hdfs;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.CertPathValidator;
import java.security.cert.CertStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.CollectionCertStoreParameters;
import java.security.cert.PKIXBuilderParameters;
import java.security.cert.X509CertSelector;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.CertPathTrustManagerParameters;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSession;
import javax.net.ssl.TrustManagerFactory;

/**
 * A folder of credentials as {@code suture cert} makes them: tls.crt, tls.key, ca.crt and perhaps
 * ca.crl, all PEM. They are read anew for each connection, so a renewed certificate needs no restart.
 *
 * A certificate says in a URI of its own who its holder is, {@code suture://ROLE/NAME}; names of hosts
 * mean nothing.
 */
final class Credentials {
  private static final String SCHEME = "suture://";
  private static final Pattern BLOCK =
      Pattern.compile("-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \\1-----");
  private static final Set<PosixFilePermission> OTHERS = Set.of(
      PosixFilePermission.GROUP_READ, PosixFilePermission.GROUP_WRITE,
      PosixFilePermission.OTHERS_READ, PosixFilePermission.OTHERS_WRITE);

  private final Path folder;

  Credentials(Path folder) {
    this.folder = folder;
  }

  /** What connections are made with. */
  SSLContext context() throws IOException {
    try {
      List<X509Certificate> chain = certificates("tls.crt");
      chain.get(0).checkValidity();
      identity(chain.get(0));
      char[] none = new char[0];
      KeyStore own = KeyStore.getInstance("PKCS12");
      own.load(null, none);
      own.setKeyEntry("own", key(), none, chain.toArray(new Certificate[0]));
      KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
      keys.init(own, none);
      TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
      trust.init(new CertPathTrustManagerParameters(trusted()));
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
      return context;
    } catch (GeneralSecurityException e) {
      throw new IOException("the credentials in " + folder + " are of no use: "
          + PluginLog.reason(e) + "; 'suture cert' makes others", e);
    }
  }

  /** Who a certificate is of, as {@code ROLE/NAME}. */
  static String identity(X509Certificate certificate) throws IOException, GeneralSecurityException {
    Collection<List<?>> names = certificate.getSubjectAlternativeNames();
    for (List<?> name : names == null ? List.<List<?>>of() : names) {
      String uri = Integer.valueOf(6).equals(name.get(0)) ? String.valueOf(name.get(1)) : "";
      if (uri.startsWith(SCHEME)) {
        URI parsed = URI.create(uri);
        return parsed.getAuthority() + parsed.getPath();
      }
    }
    throw new IOException("a certificate that says no " + SCHEME + "ROLE/NAME");
  }

  /** Whom the other end of a connection has proven to be. */
  static String peer(SSLSession session) throws IOException {
    try {
      return identity((X509Certificate) session.getPeerCertificates()[0]);
    } catch (GeneralSecurityException e) {
      throw new IOException("a certificate that cannot be read: " + PluginLog.reason(e), e);
    }
  }

  /**
   * Fails where the other end of a connection could not make it now: its certificate has ended
   * meanwhile or is revoked, or its authority is none any more; or where this end could not.
   */
  void judge(SSLSession session) throws IOException {
    try {
      certificates("tls.crt").get(0).checkValidity();
      List<Certificate> chain = List.of(session.getPeerCertificates());
      CertPathValidator.getInstance("PKIX").validate(
          CertificateFactory.getInstance("X.509").generateCertPath(chain), trusted());
    } catch (GeneralSecurityException e) {
      throw new IOException("one end's certificate does not hold any more: "
          + PluginLog.reason(e), e);
    }
  }

  private PKIXBuilderParameters trusted() throws IOException, GeneralSecurityException {
    KeyStore authorities = KeyStore.getInstance("PKCS12");
    authorities.load(null, new char[0]);
    int count = 0;
    for (X509Certificate authority : certificates("ca.crt")) {
      authorities.setCertificateEntry("ca" + count++, authority);
    }
    PKIXBuilderParameters trusted = new PKIXBuilderParameters(authorities, new X509CertSelector());
    Path lists = folder.resolve("ca.crl");
    trusted.setRevocationEnabled(Files.exists(lists));
    if (Files.exists(lists)) {
      CertificateFactory factory = CertificateFactory.getInstance("X.509");
      List<Object> revoked = new ArrayList<>();
      for (byte[] list : blocks("ca.crl", "X509 CRL")) {
        revoked.add(factory.generateCRL(new java.io.ByteArrayInputStream(list)));
      }
      trusted.addCertStore(
          CertStore.getInstance("Collection", new CollectionCertStoreParameters(revoked)));
    }
    return trusted;
  }

  private List<X509Certificate> certificates(String file)
      throws IOException, GeneralSecurityException {
    CertificateFactory factory = CertificateFactory.getInstance("X.509");
    List<X509Certificate> found = new ArrayList<>();
    for (byte[] der : blocks(file, "CERTIFICATE")) {
      found.add((X509Certificate)
          factory.generateCertificate(new java.io.ByteArrayInputStream(der)));
    }
    return found;
  }

  private PrivateKey key() throws IOException, GeneralSecurityException {
    try {
      Set<PosixFilePermission> mode = Files.getPosixFilePermissions(folder.resolve("tls.key"));
      if (mode.stream().anyMatch(OTHERS::contains)) {
        throw new IOException("others than its owner may read " + folder.resolve("tls.key")
            + ": chmod go-rwx it, and take a new key if they may have");
      }
    } catch (NoSuchFileException e) {
      throw new IOException("there is no " + folder.resolve("tls.key"), e);
    }
    PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(blocks("tls.key", "PRIVATE KEY").get(0));
    for (String algorithm : new String[] {"EC", "RSA"}) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(encoded);
      } catch (InvalidKeySpecException e) {
        // It is of the other kind, or of none.
        continue;
      }
    }
    throw new IOException(folder.resolve("tls.key") + " is no EC or RSA key in PKCS #8");
  }

  private List<byte[]> blocks(String file, String kind) throws IOException {
    Path path = folder.resolve(file);
    String text;
    try {
      text = new String(Files.readAllBytes(path), StandardCharsets.US_ASCII);
    } catch (NoSuchFileException e) {
      throw new IOException("there is no " + path, e);
    }
    List<byte[]> blocks = new ArrayList<>();
    Matcher matcher = BLOCK.matcher(text);
    while (matcher.find()) {
      if (matcher.group(1).equals(kind)) {
        blocks.add(Base64.getMimeDecoder().decode(matcher.group(2)));
      }
    }
    if (blocks.isEmpty()) {
      throw new IOException(path + " has no " + kind);
    }
    return blocks;
  }
}
