"""Hadoop from its Maven artifacts: no installation is needed."""

import glob
import os
import re
import shutil
import subprocess
import sys

from .processes import Failed, need, run

PLUGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(PLUGIN))


# What a DataNode's plugin needs.
JAVA_MIN = 17


def java():
    """The program, if it is new enough."""
    need("java", f"Java {JAVA_MIN} or later runs Hadoop here")
    text = run(["java", "-version"])
    version = re.search(r'version "(\d+)', text)
    if not version or int(version[1]) < JAVA_MIN:
        raise Failed(f"Java {JAVA_MIN} or later is needed, and `java -version` says: {text.strip()}")
    return "java"


def maven(*args):
    need("mvn", "Maven fetches Hadoop and builds the plugin; else name both by --hadoop and --jar")
    run(["mvn", "-q", "-B", "-f", os.path.join(PLUGIN, "pom.xml"), *args])


def newest(*paths):
    """When the last of these files, or of those in these folders, was changed."""
    found = []
    for path in paths:
        found += [path] if os.path.isfile(path) else \
            [os.path.join(below, name) for below, _, names in os.walk(path) for name in names]
    return max(map(os.path.getmtime, found))


def is_older(path, *sources):
    return not os.path.exists(path) or os.path.getmtime(path) < newest(*sources)


def jar(given=None):
    """The plugin: as given, or the one of this tree, built if it is older than its sources."""
    if given:
        if not os.path.isfile(given):
            raise Failed(f"--jar: there is no file {given}")
        return os.path.abspath(given)
    path = os.path.join(PLUGIN, "target", "suture-hdfs-0.1.0.jar")
    if is_older(path, os.path.join(PLUGIN, "src", "main"), os.path.join(PLUGIN, "pom.xml")):
        maven("-DskipTests", "package")
    return path


def libraries(version, given=None):
    """A folder with Hadoop's jars and what they need: as given, or of that version from Maven."""
    if given:
        if not glob.glob(os.path.join(given, "hadoop-hdfs-*.jar")):
            raise Failed(f"--hadoop: {given} has no hadoop-hdfs-VERSION.jar")
        return os.path.abspath(given)
    folder = os.path.join(PLUGIN, "target", "hadoop-" + version)
    done = os.path.join(folder, ".complete")
    if not os.path.exists(done):
        maven(f"-Dhadoop.version={version}", "dependency:copy-dependencies",
              "-DincludeScope=provided", "-DoutputDirectory=" + folder)
        open(done, "w").close()
    return folder


def suture(given):
    """The binary: as given, or the one of this tree, built if it is older than its sources.

    One that was not optimized is taken only where it is named: what it measures says nothing."""
    if given:
        if not os.path.isfile(given) or not os.access(given, os.X_OK):
            raise Failed(f"--suture: {given} is no program")
        return os.path.abspath(given)
    folder = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    path = os.path.join(folder, "release", "suture")
    sources = [os.path.join(ROOT, name) for name in ("crates", "Cargo.toml", "Cargo.lock")]
    if is_older(path, *sources):
        if os.path.exists(path) and not shutil.which("cargo"):
            print(f"{path} is older than its sources, and cargo is not there", file=sys.stderr)
            return path
        need("cargo", "it builds suture; else name the program by --suture")
        print("building suture", file=sys.stderr, flush=True)
        build = ["cargo", "build", "--release", "-p", "suture"]
        if subprocess.run(build, cwd=ROOT, stdout=sys.stderr).returncode:
            raise Failed("suture cannot be built")
    return path


def write_conf(path, keys):
    """A configuration file of Hadoop's kind."""
    with open(path, "w") as out:
        out.write("<configuration>\n")
        for name, value in sorted(keys.items()):
            out.write(f"  <property><name>{name}</name><value>{value}</value></property>\n")
        out.write("</configuration>\n")
