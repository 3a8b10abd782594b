"""Slow disks on a fast one: what an OSD reads of its device is held to a rate, by the kernel.

Held are bytes a second, not seeks, which a hard disk has too."""

import os

from live.processes import Failed, run

CONTROLLER = "/sys/fs/cgroup/blkio"
LIMIT = "blkio.throttle.read_bps_device"


class Disks:
    """A control group for each OSD, on the device of a folder."""

    def __init__(self, folder, bytes_per_second):
        self.rate, self.groups = bytes_per_second, []
        if not bytes_per_second:
            return
        if os.geteuid() != 0 or not os.path.exists(os.path.join(CONTROLLER, LIMIT)):
            raise Failed(f"--disk-rate needs root and {CONTROLLER}/{LIMIT} (version 1 of cgroups)")
        self.device = run(["stat", "-c", "%Hd:%Ld", folder]).strip()

    def hold(self, name, pid):
        if not self.rate:
            return
        group = os.path.join(CONTROLLER, f"suture-ceph-{os.getpid()}-{name}")
        if group not in self.groups:
            os.mkdir(group)
            self.groups.append(group)
            self._write(group, LIMIT, f"{self.device} {self.rate}")
        self._write(group, "cgroup.procs", str(pid))

    def close(self):
        for group in self.groups:
            os.rmdir(group)
        self.groups = []

    def _write(self, group, file, text):
        with open(os.path.join(group, file), "w") as out:
            out.write(text)
