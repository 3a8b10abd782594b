package org.suture.hdfs;

/**
 * The way from an entry of the jar to what lies behind it.
 *
 * Hadoop loads the entries by their names: both plugins, the placement policy and the codec's
 * factory. A daemon whose configuration names a class that cannot be loaded does not start, and a
 * factory that cannot be loaded ends every use of erasure coding in its process. So the entries,
 * and all that they refer to, are compiled for Java 8 (pom.xml), the oldest that Hadoop runs on;
 * what needs a newer one is named as text only, and loaded here. Whatever is wrong with it is a
 * reason to do nothing.
 */
public final class Entries {
  private Entries() {
  }

  /** An object of a class of this jar; what is thrown says in words why there is none. */
  public static <T> T load(Class<T> kind, String name) throws ReflectiveOperationException {
    try {
      return kind.cast(Class.forName(name).getDeclaredConstructor().newInstance());
    } catch (UnsupportedClassVersionError e) {
      throw new IllegalStateException("this is Java " + System.getProperty("java.version")
          + ", and Suture needs Java 11 or later here");
    }
  }
}
