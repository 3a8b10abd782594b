package org.suture.hdfs;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.hadoop.hdfs.server.namenode.FSNamesystem;

/**
 * The lock of the NameNode's namesystem, whichever form it has: 3.3 and 3.4 have one lock, 3.5
 * takes the part that is meant. The whole is taken there, since blocks and files are both looked
 * at. How long it is held at most is a metric.
 */
final class NamesystemLock {
  /** What the NameNode's own warnings of long holds call us. */
  private static final String HOLDER = "suture";

  private final FSNamesystem namesystem;
  private final Object mode;
  private final Method readLock;
  private final Method readUnlock;
  private final Method writeLock;
  private final Method writeUnlock;

  /** Work under the lock. */
  interface Work<T> {
    T run();
  }

  NamesystemLock(FSNamesystem namesystem) throws ReflectiveOperationException {
    this.namesystem = namesystem;
    Class<?> modes = modes();
    mode = modes == null ? null : modes.getField("GLOBAL").get(null);
    readLock = method("readLock");
    readUnlock = method("readUnlock", String.class);
    writeLock = method("writeLock");
    writeUnlock = method("writeUnlock", String.class);
  }

  <T> T read(Work<T> work) {
    call(readLock);
    long from = System.nanoTime();
    try {
      return work.run();
    } finally {
      long micros = (System.nanoTime() - from) / 1000;
      call(readUnlock, HOLDER);
      PluginMetrics.get().heldForReading(micros);
    }
  }

  <T> T write(Work<T> work) {
    call(writeLock);
    long from = System.nanoTime();
    try {
      return work.run();
    } finally {
      long micros = (System.nanoTime() - from) / 1000;
      call(writeUnlock, HOLDER);
      PluginMetrics.get().heldForWriting(micros);
    }
  }

  private static Class<?> modes() {
    try {
      return Class.forName("org.apache.hadoop.hdfs.util.RwLockMode");
    } catch (ClassNotFoundException e) {
      return null;
    }
  }

  private Method method(String name, Class<?>... also) throws ReflectiveOperationException {
    if (mode == null) {
      return FSNamesystem.class.getMethod(name, also);
    }
    Class<?>[] kinds = new Class<?>[also.length + 1];
    kinds[0] = mode.getClass();
    System.arraycopy(also, 0, kinds, 1, also.length);
    return FSNamesystem.class.getMethod(name, kinds);
  }

  private void call(Method method, Object... also) {
    Object[] all = also;
    if (mode != null) {
      all = new Object[also.length + 1];
      all[0] = mode;
      System.arraycopy(also, 0, all, 1, also.length);
    }
    try {
      method.invoke(namesystem, all);
    } catch (InvocationTargetException e) {
      throw new IllegalStateException(method.getName() + " failed", e.getCause());
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(method.getName() + " cannot be called", e);
    }
  }
}
