package org.suture.hdfs;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.hdfs.server.blockmanagement.BlockPlacementPolicy;
import org.apache.hadoop.io.erasurecode.ErasureCoderOptions;
import org.apache.hadoop.io.erasurecode.rawcoder.RawErasureCoderFactory;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.metrics2.lib.MutableGaugeInt;
import org.apache.hadoop.util.ServicePlugin;
import org.junit.Before;
import org.junit.Test;

/** What Hadoop loads by name, in a process whose Java is older than the rest of the jar. */
public class EntriesTest {
  private static final int JAVA_8 = 52;
  private static final int JAVA_11 = 55;
  private static final Path ENTRIES = Paths.get("src", "main", "java8");
  private static final Path OTHERS = Paths.get("src", "main", "java");

  /** The jar's own classes, loaded anew: which of them can be, and how they look, is varied. */
  private abstract static class OwnClasses extends ClassLoader {
    private final Set<String> own;

    OwnClasses() throws IOException {
      super(EntriesTest.class.getClassLoader());
      own = classes(ENTRIES);
      own.addAll(classes(OTHERS));
    }

    /** The bytes of a class as this loader finds them. */
    abstract byte[] found(String name, byte[] bytes) throws ClassNotFoundException;

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      String outermost = name.replaceFirst("\\$.*", "");
      if (!own.contains(outermost)) {
        return super.loadClass(name, resolve);
      }
      synchronized (getClassLoadingLock(name)) {
        Class<?> found = findLoadedClass(name);
        return found == null ? define(name) : found;
      }
    }

    private Class<?> define(String name) throws ClassNotFoundException {
      try {
        byte[] bytes = found(name, bytes(name));
        return defineClass(name, bytes, 0, bytes.length);
      } catch (IOException e) {
        throw new ClassNotFoundException(name, e);
      }
    }

    Object make(String name) throws ReflectiveOperationException {
      return loadClass(name).getDeclaredConstructor().newInstance();
    }
  }

  /** A Java for which whatever is newer than Java 8 is too new. */
  private static final class OldJava extends OwnClasses {
    OldJava() throws IOException {
    }

    @Override
    byte[] found(String name, byte[] bytes) {
      if (major(bytes) > JAVA_8) {
        bytes[6] = 0x7f;
      }
      return bytes;
    }
  }

  /** A jar that lacks a class. */
  private static final class TornJar extends OwnClasses {
    private final String lacking;

    TornJar(String lacking) throws IOException {
      this.lacking = lacking;
    }

    @Override
    byte[] found(String name, byte[] bytes) throws ClassNotFoundException {
      if (name.equals(lacking)) {
        throw new ClassNotFoundException(name);
      }
      return bytes;
    }
  }

  /** The names of the classes whose sources lie there. */
  private static Set<String> classes(Path sources) throws IOException {
    try (Stream<Path> files = Files.walk(sources)) {
      return files.filter(file -> file.toString().endsWith(".java"))
          .map(file -> sources.relativize(file).toString().replaceFirst("\\.java$", "")
              .replace('/', '.'))
          .collect(Collectors.toSet());
    }
  }

  private static byte[] bytes(String name) throws IOException {
    String file = name.replace('.', '/') + ".class";
    try (InputStream in = EntriesTest.class.getClassLoader().getResourceAsStream(file)) {
      return in.readAllBytes();
    }
  }

  private static int major(byte[] bytes) {
    return (bytes[6] & 0xff) << 8 | bytes[7] & 0xff;
  }

  /** As in {@code MiniDFSCluster}: several plugins may count in one process. */
  @Before
  public void share() {
    DefaultMetricsSystem.setMiniClusterMode(true);
  }

  @Test
  public void entriesAreOfTheOldestJavaOfHadoopAndNothingElseIs() throws Exception {
    Map<String, Integer> found = new HashMap<>();
    for (String name : classes(ENTRIES)) {
      found.put(name, major(bytes(name)));
    }
    assertEquals(found.toString(), Set.of(JAVA_8), Set.copyOf(found.values()));
    assertTrue(found.keySet().containsAll(List.of("org.suture.hdfs.NameNodePlugin",
        "org.suture.hdfs.DataNodePlugin", "org.suture.hdfs.SuturePlacementPolicy")));
    for (String name : classes(OTHERS)) {
      assertEquals(name, JAVA_11, major(bytes(name)));
    }
  }

  @Test
  public void whatIsTooNewIsNotLoadedAndThatIsSaid() throws Exception {
    OldJava old = new OldJava();
    assertThrows(UnsupportedClassVersionError.class,
        () -> old.make("org.suture.hdfs.NameNodePart"));
    Class<?> entries = old.loadClass("org.suture.hdfs.Entries");
    Exception why = assertThrows(Exception.class, () -> entries
        .getMethod("load", Class.class, String.class)
        .invoke(null, Object.class, "org.suture.hdfs.NameNodePart"));
    assertTrue(why.getCause().getMessage(), why.getCause().getMessage().contains("Java 11"));
  }

  @Test
  public void pluginsInAnOldJavaSayOneLineAndDoNothing() throws Exception {
    for (String name : new String[] {"NameNodePlugin", "DataNodePlugin"}) {
      isOff(new OldJava(), name, "Java 11");
    }
  }

  @Test
  public void pluginsOfAJarThatIsNotWholeSayOneLineAndDoNothing() throws Exception {
    for (String daemon : new String[] {"NameNode", "DataNode"}) {
      // What is loaded first, and what that needs first.
      for (String part : new String[] {daemon + "Part", "HadoopRelease"}) {
        String lacking = "org.suture.hdfs." + part;
        isOff(new TornJar(lacking), daemon + "Plugin", "not there, " + lacking + ":");
      }
    }
  }

  /** A plugin begins and ends, says why it does nothing in one line, and shows it. */
  private static void isOff(OwnClasses in, String name, String why) throws Exception {
    try (Said said = new Said()) {
      ServicePlugin plugin = (ServicePlugin) in.make("org.suture.hdfs." + name);
      plugin.start("a daemon");
      plugin.stop();
      plugin.close();
      assertEquals(said.lines().toString(), 1, said.lines().size());
      String line = said.lines().get(0);
      assertTrue(line, line.contains("Suture: off") && line.contains(why));
      assertEquals(PluginMetrics.OFF, state(in));
    }
  }

  private static int state(OwnClasses of) throws ReflectiveOperationException {
    Class<?> metrics = of.loadClass("org.suture.hdfs.PluginMetrics");
    Field state = metrics.getDeclaredField("state");
    state.setAccessible(true);
    return ((MutableGaugeInt) state.get(metrics.getMethod("get").invoke(null))).value();
  }

  @Test
  public void pluginsThatCannotBeLoadedForAnotherReasonSayOneLineToo() throws Exception {
    try (Said said = new Said()) {
      NameNodePlugin plugin = new NameNodePlugin();
      plugin.start("no NameNode");
      plugin.stop();
      new DataNodePlugin().start("no DataNode");
      assertEquals(said.lines().toString(), 2, said.lines().size());
      said.lines().forEach(line -> assertTrue(line, line.contains("Suture: off")));
    }
    assertThrows(ClassNotFoundException.class, () -> Entries.load(Object.class, "org.suture.None"));
  }

  @Test
  public void thePolicyOfAnOldJavaIsHdfsOwn() throws Exception {
    OldJava old = new OldJava();
    BlockPlacementPolicy policy =
        (BlockPlacementPolicy) old.make(SuturePlacementPolicy.class.getName());
    // Every class that its methods name can be found.
    assertTrue(policy.getClass().getDeclaredMethods().length > 0);
    assertFalse((Boolean) call(old, "org.suture.hdfs.Lease", "isHeld"));
  }

  private static Object call(OldJava in, String name, String method)
      throws ReflectiveOperationException {
    java.lang.reflect.Method found = in.loadClass(name).getDeclaredMethod(method);
    found.setAccessible(true);
    return found.invoke(null);
  }

  @Test
  public void otherCodecsAreFoundInAnOldJavaAndTheNewOneSaysWhatItNeeds() throws Exception {
    Map<String, RawErasureCoderFactory> coders = new HashMap<>();
    for (RawErasureCoderFactory factory
        : ServiceLoader.load(RawErasureCoderFactory.class, new OldJava())) {
      coders.put(factory.getCoderName(), factory);
    }
    assertTrue(coders.keySet().toString(), coders.containsKey("rs_java"));
    ErasureCoderOptions options = new ErasureCoderOptions(4, 2);
    RawErasureCoderFactory butterfly = coders.get("butterfly_java");
    for (Exception why : List.of(
        assertThrows(IllegalArgumentException.class, () -> butterfly.createEncoder(options)),
        assertThrows(IllegalArgumentException.class, () -> butterfly.createDecoder(options)))) {
      assertTrue(why.getMessage(), why.getMessage().contains("Java 11"));
    }
  }
}
