"""Builds the plugin and what tries it: for the Ceph that is there, or with a stand-in."""

import os
import subprocess

from live.processes import Failed, run

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILDS = os.path.join(HERE, "../../target/ceph")


def build(ceph):
    """The folder with `libec_butterfly.so`, `driver` and `speed`."""
    folder = os.path.normpath(os.path.join(BUILDS, "build" if ceph else "build-stand-in"))
    options = [f"-DCEPH_PREFIX={ceph.prefix}"] if ceph else ["-DSTAND_IN=ON"]
    run(["cmake", "-S", HERE, "-B", folder] + options)
    # Compilers say what they have to say.
    if subprocess.run(["cmake", "--build", folder, "--parallel", "2"],
                      stdout=subprocess.DEVNULL).returncode:
        raise Failed("the plugin was not built")
    return folder
