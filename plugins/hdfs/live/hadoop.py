"""Hadoop from its Maven artifacts: no installation is needed."""

import os
import subprocess

from .processes import Failed, run

PLUGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(PLUGIN))


def maven(*args):
    run(["mvn", "-q", "-B", "-f", os.path.join(PLUGIN, "pom.xml"), *args])


def newest(folder):
    found = [os.path.join(below, name) for below, _, names in os.walk(folder) for name in names]
    return max(map(os.path.getmtime, found))


def jar():
    """The plugin, built if it is older than its sources."""
    path = os.path.join(PLUGIN, "target", "suture-hdfs-0.1.0.jar")
    if not os.path.exists(path) or os.path.getmtime(path) < newest(os.path.join(PLUGIN, "src", "main")):
        maven("-DskipTests", "package")
    return path


def libraries(version):
    """A folder with Hadoop's jars of that version and what they need."""
    folder = os.path.join(PLUGIN, "target", "hadoop-" + version)
    done = os.path.join(folder, ".complete")
    if not os.path.exists(done):
        maven(f"-Dhadoop.version={version}", "dependency:copy-dependencies",
              "-DincludeScope=provided", "-DoutputDirectory=" + folder)
        open(done, "w").close()
    return folder


def suture(given):
    """The binary: as given, or one that was built, or one that is built now."""
    if given:
        return os.path.abspath(given)
    folder = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    for profile in ("release", "debug"):
        path = os.path.join(folder, profile, "suture")
        if os.path.exists(path):
            return path
    print("building suture (once)", flush=True)
    if subprocess.run(["cargo", "build", "--release", "-p", "suture"], cwd=ROOT).returncode:
        raise Failed("suture cannot be built")
    return os.path.join(folder, "release", "suture")


def write_conf(path, keys):
    """A configuration file of Hadoop's kind."""
    with open(path, "w") as out:
        out.write("<configuration>\n")
        for name, value in sorted(keys.items()):
            out.write(f"  <property><name>{name}</name><value>{value}</value></property>\n")
        out.write("</configuration>\n")
