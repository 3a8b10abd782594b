"""A throw-away Ceph on loopback: one monitor, one manager, OSDs with bluestore on sparse files."""

import concurrent.futures
import json
import os
import shutil
import socket
import struct
import sys
import time
import uuid

from live.processes import Failed, Processes, run, wait_for

from harness.disks import Disks

GIB = 1 << 30
STORE_BYTES = 4 * GIB
# Modules that would be loaded and are not needed; one of them makes a pool of its own.
MODULES = ("balancer crash dashboard devicehealth iostat orchestrator pg_autoscaler progress "
           "rbd_support restful status telemetry volumes")
# Everything in one place: every OSD has a shard of every placement group.
CONFIG = """[global]
fsid = {fsid}
mon_host = [v2:127.0.0.1:{port}]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_bind_port_min = {port_min}
ms_bind_port_max = {port_max}
run_dir = {folder}/run
admin_socket = {folder}/run/$name.asok
log_file = {folder}/logs/$name.ceph.log
mon_cluster_log_file = {folder}/logs/cluster.log
pid_file =
erasure_code_dir = {plugins}
plugin_dir = {libraries}/ceph
osd_class_dir = {libraries}/rados-classes
mon_data = {folder}/mon
mgr_data = {folder}/mgr
mgr_module_path = {prefix}/usr/share/ceph/mgr
mgr_initial_modules =
mgr_disabled_modules = {modules}
osd_data = {folder}/osd-$id
osd_objectstore = bluestore
bluestore_block_size = {store_bytes}
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
bluestore_debug_inject_read_err = true
osd_crush_chooseleaf_type = 0
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_delete = true
mon_max_pg_per_osd = 1000
mon_osd_down_out_interval = 0
mon_osd_min_down_reporters = 1
mon_data_avail_warn = 1
mon_data_avail_crit = 1
osd_heartbeat_interval = 1
osd_heartbeat_grace = 4
osd_mon_report_interval = 1
mgr_stats_period = 1
mgr_tick_period = 1
osd_recovery_sleep = 0
osd_max_backfills = 16
osd_recovery_max_active = 16
osd_recovery_delay_start = 0
osd_max_scrubs = 8
osd_scrub_load_threshold = 1000
osd_scrub_sleep = 0
# Only the scrubs that are asked for.
osd_scrub_min_interval = 31536000
osd_scrub_max_interval = 31536000
osd_deep_scrub_interval = 31536000
"""


class Cluster:
    """Its daemons, and the questions that are asked of them."""

    def __init__(self, folder, ceph, plugins, osds, disk_rate=None):
        self._rados = librados()
        self.folder, self.ceph = folder, ceph
        self.osds = range(osds)
        self.uuids = {osd: str(uuid.uuid4()) for osd in self.osds}
        self.reads_whole = False
        self.client = None
        for name in ("run", "logs", "mon", "mgr"):
            os.makedirs(os.path.join(folder, name))
        self.processes = Processes(os.path.join(folder, "logs"))
        self.disks = Disks(folder, disk_rate)
        self.conf = os.path.join(folder, "ceph.conf")
        port = free_port()
        with open(self.conf, "w") as out:
            out.write(CONFIG.format(
                fsid=uuid.uuid4(), port=port, port_min=port + 1, port_max=port + 400, folder=folder,
                plugins=plugins, libraries=ceph.libraries, prefix=ceph.prefix.rstrip("/"),
                store_bytes=STORE_BYTES, modules=MODULES))

    def start(self):
        monmap = os.path.join(self.folder, "monmap")
        address = open(self.conf).read().split("mon_host = ")[1].split("\n")[0]
        fsid = open(self.conf).read().split("fsid = ")[1].split("\n")[0]
        self._run("monmaptool", "--create", "--addv", "a", address, "--fsid", fsid,
                  "--set-min-mon-release", "16", monmap)
        self._run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap)
        self._start("mon.a", "ceph-mon", "-i", "a")
        self.client = self._rados.Rados(conffile=self.conf, name="client.admin",
                                        conf={"log_file": "", "admin_socket": ""})
        self.client.connect(timeout=60)
        self._start("mgr.x", "ceph-mgr", "-i", "x")
        for osd in self.osds:
            self.command("osd new", uuid=self.uuids[osd])
        self.each(self.osds, self.make_store)
        for osd in self.osds:
            self.start_osd(osd)
        self.wait_for_osds(len(self.osds))
        for flag in ("noout", "nodeep-scrub", "noscrub"):
            self.command("osd set", key=flag)

    def each(self, osds, what):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            try:
                list(pool.map(what, osds))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def make_store(self, osd):
        """An empty store, as after a disk was replaced."""
        data = os.path.join(self.folder, f"osd-{osd}")
        shutil.rmtree(data, ignore_errors=True)
        os.makedirs(data)
        self._run("ceph-osd", "-i", str(osd), "--mkfs", "--osd-uuid", self.uuids[osd])

    def start_osd(self, osd):
        env = self.ceph.environment()
        if self.reads_whole:
            env["SUTURE_CEPH_READS"] = "whole"
        process = self._start(f"osd.{osd}", "ceph-osd", "-i", str(osd), env=env)
        self.disks.hold(f"osd.{osd}", process.pid)

    def kill_osds(self, osds):
        for osd in osds:
            self.processes.kill(f"osd.{osd}")
            self.command("osd down", ids=[str(osd)])
        self.wait_for_osds(len(self.osds) - len(osds))

    def restart_osds(self, reads_whole):
        """All of them, reading sub-chunks or whole chunks from now on."""
        self.reads_whole = reads_whole
        self.kill_osds(self.osds)
        for osd in self.osds:
            self.start_osd(osd)
        self.wait_for_osds(len(self.osds))

    def wait_for_osds(self, count):
        def are_up():
            return sum(osd["up"] for osd in self.command("osd dump")["osds"]) == count
        wait_for(f"{count} OSDs up", are_up, 120, self.processes)

    def command(self, prefix, **arguments):
        """A command to the monitor, or about placement groups to the manager; its answer."""
        asked = json.dumps({"prefix": prefix, "format": "json", **arguments})
        send = self.client.mgr_command if prefix.startswith("pg ") else self.client.mon_command
        status, out, said = send(asked, b"", timeout=60)
        if status:
            raise Failed(f"{prefix} {arguments}: {said} ({status})")
        # What `ceph` would show beside it.
        self.said = said
        return json.loads(out) if out.strip() else None

    def ask(self, osd, prefix, **arguments):
        """A command to a daemon's socket; the text of its answer."""
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(os.path.join(self.folder, "run", f"osd.{osd}.asok"))
            asked = json.dumps({"prefix": prefix, "format": "json", **arguments})
            link.sendall(asked.encode() + b"\0")
            length = struct.unpack(">I", link.recv(4, socket.MSG_WAITALL))[0]
            return link.recv(length, socket.MSG_WAITALL).decode()

    def placement_groups(self):
        return self.command("pg dump", dumpcontents=["pgs"])["pg_stats"]

    def are_clean(self):
        """All groups whole, as the manager has heard."""
        groups = self.placement_groups()
        return groups and all(group["state"] == "active+clean" for group in groups)

    def wait_until_clean(self, seconds=240):
        wait_for("all placement groups clean", self.are_clean, seconds, self.processes, every=0.1)

    def device_read_bytes(self, osds):
        """Bytes that the kernel has read from the device for them."""
        total = 0
        for osd in osds:
            process = self.processes.running[f"osd.{osd}"]
            with open(f"/proc/{process.pid}/io") as counters:
                total += int(dict(line.split(": ") for line in counters)["read_bytes"])
        return total

    def sent_bytes(self, osds):
        """Bytes that their messengers have sent."""
        total = 0
        for osd in osds:
            for name, counters in json.loads(self.ask(osd, "perf dump")).items():
                if name.startswith("AsyncMessenger::Worker"):
                    total += counters["msgr_send_bytes"]
        return total

    def deep_scrub(self):
        """Scrubs everything; how many errors there are."""
        for flag in ("nodeep-scrub", "noscrub"):
            self.command("osd unset", key=flag)
        before = {group["pgid"]: group["last_deep_scrub_stamp"]
                  for group in self.placement_groups()}
        asked = {}

        def are_scrubbed():
            waiting = [group["pgid"] for group in self.placement_groups()
                       if group["last_deep_scrub_stamp"] == before.get(group["pgid"])]
            for group in waiting:
                # A request that meets a busy OSD is forgotten.
                if time.monotonic() - asked.get(group, -100) > 15:
                    asked[group] = time.monotonic()
                    self.command("pg deep-scrub", pgid=group)
            return not waiting

        wait_for("deep scrubs", are_scrubbed, 240, self.processes, every=0.5)
        for flag in ("nodeep-scrub", "noscrub"):
            self.command("osd set", key=flag)
        return sum(group["stat_sum"]["num_scrub_errors"] for group in self.placement_groups())

    def close(self):
        if self.client:
            # A client waits for a cluster that may be gone: it ends with this process.
            self.client = None
        self.processes.stop_all()
        self.disks.close()

    def _run(self, program, *arguments):
        return run([self.ceph.program(program)] + list(arguments) +
                   ([] if program == "monmaptool" else ["-c", self.conf]),
                   env=self.ceph.environment(), cwd=self.folder)

    def _start(self, name, program, *arguments, env=None):
        command = [self.ceph.program(program), "-f", "-c", self.conf] + list(arguments)
        return self.processes.start(name, command, env=env or self.ceph.environment())


def librados():
    """Found by the environment that the command was started again with."""
    try:
        import rados
    except ImportError as error:
        raise Failed(f"the cluster is asked through python3-rados, made for the system's python3, "
                     f"and {sys.executable} cannot load it: {error}") from None
    return rados


def free_port():
    """A port that nobody has, with room for the daemons' after it."""
    for port in range(33000, 60000, 500):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Failed("no free port")


def counts_reads(folder):
    """Whether files of this folder are on a device, which counts what is read of it."""
    return run(["stat", "-f", "-c", "%T", folder]).strip() not in ("tmpfs", "overlayfs")
