"""Builds the plugin and what tries it: for the Ceph that is there, or with a stand-in."""

import os
import shutil
import signal
import subprocess

from live.processes import Failed, run

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILDS = os.path.join(HERE, "../../target/ceph")


def build(ceph):
    """The folder with `libec_butterfly.so`, `driver` and `speed`."""
    folder = os.path.normpath(os.path.join(BUILDS, "build" if ceph else "build-stand-in"))
    forget_moved(folder)
    options = [f"-DCEPH_PREFIX={ceph.prefix}"] if ceph else ["-DSTAND_IN=ON"]
    run(["cmake", "-S", HERE, "-B", folder] + options)
    # Compilers say what they have to say. They are many processes, and all end with us.
    building = subprocess.Popen(["cmake", "--build", folder, "--parallel", "2"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                start_new_session=True)
    try:
        status = building.wait()
    except BaseException:
        os.killpg(building.pid, signal.SIGKILL)
        building.wait()
        raise
    if status:
        raise Failed("the plugin was not built")
    return folder


def forget_moved(folder):
    """Removes a build of sources that were somewhere else, which CMake refuses to go on with."""
    try:
        with open(os.path.join(folder, "CMakeCache.txt")) as cache:
            is_here = f"CMAKE_HOME_DIRECTORY:INTERNAL={HERE}\n" in cache.read()
    except FileNotFoundError:
        return
    if not is_here:
        shutil.rmtree(folder)
