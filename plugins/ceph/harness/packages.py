"""Where Ceph is: installed, or Debian's packages unpacked in a folder of their own.

Nothing is ever installed: packages are fetched as a user fetches them and unpacked, with the
libraries that this machine lacks, and programs find each other by the environment made here."""

import os
import re
import subprocess
import sys
import sysconfig

from live.processes import Failed, run

SERIES = "16.2."
PACKAGES = ["ceph-mon", "ceph-osd", "ceph-mgr", "ceph-common", "libradospp-dev", "python3-rados"]
TRIPLET = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"


class Ceph:
    """A Ceph below a prefix, which is / when it is installed."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.libraries = os.path.join(prefix, "usr/lib", TRIPLET)
        self.plugins = os.path.join(self.libraries, "ceph/erasure-code")

    def is_there(self):
        """Whether it can be built for and started: daemons, tool and header."""
        header = os.path.join(self.prefix, "usr/include/rados/buffer.h")
        programs = map(self.program, ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-erasure-code-tool"))
        return all(map(os.path.exists, [header, *programs]))

    def program(self, name):
        return os.path.join(self.prefix, "usr/bin", name)

    def environment(self):
        """What programs need to find their libraries and modules."""
        env = dict(os.environ)
        if self.prefix == "/":
            return env
        folders = [self.libraries, os.path.join(self.libraries, "ceph"),
                   os.path.join(self.prefix, "lib", TRIPLET)]
        env["LD_LIBRARY_PATH"] = ":".join(folders)
        env["PYTHONPATH"] = os.path.join(self.prefix, "usr/lib/python3/dist-packages")
        env["PATH"] = os.path.join(self.prefix, "usr/bin") + ":" + env["PATH"]
        return env

    def version(self):
        # Outside of any folder that has a ceph.conf, as nothing is to be read but the version.
        said = run([self.program("ceph-osd"), "--version"], env=self.environment(), cwd="/")
        found = re.search(r"ceph version (\S+)", said)
        return found[1] if found else said.strip()

    def is_served(self):
        return self.version().startswith(SERIES)


def find(prefix):
    """The Ceph that was asked for, that was unpacked here, or that is installed; or None."""
    if prefix:
        ceph = Ceph(os.path.abspath(prefix))
        if not ceph.is_there():
            raise Failed(f"below {prefix} there is no Ceph with daemons and libradospp-dev")
        if not ceph.is_served():
            raise Failed(f"{prefix}: this is for Ceph {SERIES}x, not for {ceph.version()}")
        return ceph
    usable = [ceph for ceph in map(Ceph, [default_prefix(), "/"])
              if ceph.is_there() and ceph.is_served()]
    return usable[0] if usable else None


def default_prefix():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.normpath(os.path.join(here, "../../../target/ceph/prefix"))


def fetch():
    """Unpacks the packages and what they need that this machine lacks."""
    ceph = Ceph(default_prefix())
    try:
        asked = run(["apt-get", "install", "--print-uris", "-qq", "--no-install-recommends"] +
                    PACKAGES)
    except (Failed, FileNotFoundError) as error:
        raise Failed(f"apt offers no Ceph (on Debian 12, after apt-get update, it does): {error}")
    names = [line.split()[1].split("_")[0] for line in asked.splitlines() if line.startswith("'")]
    if not names:
        raise Failed("everything is installed; then --prefix / is what you want")
    partial, debs = ceph.prefix + ".partial", ceph.prefix + ".debs"
    for folder in (partial, debs):
        subprocess.run(["rm", "-rf", folder], check=True)
        os.makedirs(folder)
    print(f"fetching {len(names)} packages to {ceph.prefix}", file=sys.stderr)
    run(["apt-get", "download", "-qq"] + names, cwd=debs)
    for deb in sorted(os.listdir(debs)):
        run(["dpkg-deb", "-x", os.path.join(debs, deb), partial])
    subprocess.run(["rm", "-rf", debs], check=True)
    os.rename(partial, ceph.prefix)
    return ceph
