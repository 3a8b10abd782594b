"""What must go well on a live cluster, and what it costs beside the codes that Ceph has."""

import os
import time

from live.processes import Failed, wait_for

MIB = 1 << 20
OBJECT_BYTES = 7 * MIB
OBJECTS = 30
GROUPS = 16
VICTIM = 1
# What a recovery may read of devices, over what the code says.
OVER_THEORY_MAX = 1.03


class Code:
    """A profile, and what its repairs read."""

    def __init__(self, plugin, k, unit, **keys):
        self.plugin, self.k, self.unit = plugin, k, unit
        self.keys = {"plugin": plugin, "k": k, "m": 2, "stripe_unit": unit,
                     "crush-failure-domain": "osd", **keys}
        self.pool = f"{plugin}-{k}"

    def chunk_bytes(self):
        """Of an object, padded to whole stripes."""
        stripes = -(-OBJECT_BYTES // (self.unit * self.k))
        return stripes * self.unit

    def read_bytes(self, slot):
        """What one object's chunk in that slot takes to be rebuilt."""
        halves = self.plugin == "clay" or self.plugin == "butterfly" and slot <= self.k
        share = (self.k + 1) / 2 if halves else self.k
        return int(share * self.chunk_bytes())


def codes(k):
    """Reed-Solomon and Clay as Ceph ships them, and ours, in the same units, with sub-chunks of at
    least 4 KiB for all: where k is 2 or 3, Clay cuts a unit into more of them than Butterfly."""
    unit = 4096 << max(k - 1, (k + 3) // 2)
    # Clay takes d = k + 1 helpers, as Butterfly does.
    return [Code("jerasure", k, unit, technique="reed_sol_van"), Code("clay", k, unit, d=k + 1),
            Code("butterfly", k, unit)]


class Trial:
    """A pool with objects in it."""

    def __init__(self, cluster, code):
        self.cluster, self.code = cluster, code
        profile = [f"{key}={value}" for key, value in code.keys.items()]
        cluster.command("osd erasure-code-profile set", name=code.pool, profile=profile)
        cluster.command("osd pool create", pool=code.pool, pg_num=GROUPS, pool_type="erasure",
                        erasure_code_profile=code.pool)
        # The default asks for one more than decode it.
        cluster.command("osd pool set", pool=code.pool, var="min_size", val=str(code.k))
        wait_for("a clean pool", lambda: len(cluster.placement_groups() or []) == GROUPS and
                 cluster.are_clean(), 90, cluster.processes)
        self.ioctx = cluster.client.open_ioctx(code.pool)
        self.objects = {f"object-{number}": os.urandom(OBJECT_BYTES) for number in range(OBJECTS)}
        for name, content in self.objects.items():
            self.ioctx.write_full(name, content)

    def acting(self, name):
        """The OSDs of an object, by slot."""
        return self.cluster.command("osd map", pool=self.code.pool, object=name)["acting"]

    def compare(self, when):
        """Every byte of every object."""
        for name, content in self.objects.items():
            if self.ioctx.read(name, OBJECT_BYTES + 1) != content:
                raise Failed(f"{self.code.pool}: {name} has other bytes {when}")

    def empty(self, osds):
        """The OSDs lose their disks and are back with empty ones; nothing is recovered yet."""
        cluster = self.cluster
        for flag in ("nobackfill", "norecover"):
            cluster.command("osd set", key=flag)
        cluster.kill_osds(osds)
        cluster.each(osds, cluster.make_store)
        for osd in osds:
            cluster.start_osd(osd)
        cluster.wait_for_osds(len(cluster.osds))

        def all_are_missed():
            groups = cluster.placement_groups()
            missed = sum(group["stat_sum"]["num_objects_degraded"] for group in groups)
            are_active = all("active" in group["state"] for group in groups)
            return are_active and missed == OBJECTS * len(osds)

        wait_for("every lost chunk to be missed", all_are_missed, 90, cluster.processes)

    def recover(self):
        """Lets it be recovered; seconds."""
        start = time.monotonic()
        for flag in ("nobackfill", "norecover"):
            self.cluster.command("osd unset", key=flag)
        self.cluster.wait_until_clean()
        return time.monotonic() - start

    def measure(self):
        """One OSD is emptied and recovered: what was read and sent, beside what it should be."""
        cluster, code = self.cluster, self.code
        slots = {name: self.acting(name).index(VICTIM) for name in self.objects}
        self.empty([VICTIM])
        helpers = [osd for osd in cluster.osds if osd != VICTIM]
        read, sent = cluster.device_read_bytes(helpers), cluster.sent_bytes(cluster.osds)
        seconds = self.recover()
        read = cluster.device_read_bytes(helpers) - read
        sent = cluster.sent_bytes(cluster.osds) - sent
        stored = code.chunk_bytes() * code.k * OBJECTS
        theory = sum(code.read_bytes(slot) for slot in slots.values())
        return {"code": code.plugin, "k": code.k, "stripe_unit": code.unit, "stored_bytes": stored,
                "in_slot_b": sum(slot == code.k + 1 for slot in slots.values()),
                "read_bytes": read, "theory_bytes": theory, "read_over_theory": read / theory,
                "sent_bytes": sent, "seconds": seconds}

    def check_recovered(self, row):
        if row["code"] != "clay" and row["read_over_theory"] > OVER_THEORY_MAX:
            raise Failed(f"{self.code.pool}: devices read {row['read_over_theory']:.3f} of theory")
        errors = self.cluster.deep_scrub()
        if errors:
            raise Failed(f"{self.code.pool}: deep scrub found {errors} errors")
        self.compare("after the recovery")

    def lose_two(self):
        """Two OSDs die, are replaced, and two others die: everything is read throughout."""
        self.read_without([0, 2])
        self.empty([0, 2])
        self.recover()
        self.read_without([1, 3])

    def read_without(self, osds):
        cluster = self.cluster
        cluster.kill_osds(osds)
        self.compare(f"without OSDs {osds}")
        for osd in osds:
            cluster.start_osd(osd)
        cluster.wait_for_osds(len(cluster.osds))
        cluster.wait_until_clean()

    def survive_read_error(self):
        """A helper cannot read, while recoveries read whole chunks; how many such reads failed."""
        cluster = self.cluster
        cluster.restart_osds(reads_whole=True)
        cluster.wait_until_clean()
        slots = {name: self.acting(name) for name in self.objects}
        self.empty([VICTIM])
        hurt = 0
        for name in sorted(slots)[:4]:
            # The first k chunks that are there are read; the first of those on another OSD than the
            # primary, which is the first of all that are up.
            slot = [slot for slot, osd in enumerate(slots[name]) if osd != VICTIM][1]
            said = cluster.ask(slots[name][slot], "injectdataerr", pool=self.code.pool,
                               objname=name, shardid=slot)
            if said.strip() != "ok":
                raise Failed(f"no read error could be injected: {said}")
        self.recover()
        cluster.processes.check()
        for osd in cluster.osds:
            with open(os.path.join(cluster.folder, "logs", f"osd.{osd}.ceph.log")) as log:
                hurt += sum("Error -5 reading object" in line for line in log)
        self.compare("after a recovery with read errors")
        cluster.restart_osds(reads_whole=False)
        cluster.wait_until_clean()
        if not hurt:
            raise Failed("no read error was met, so nothing was tried")
        return hurt

    def remove(self):
        self.ioctx.close()
        pool = self.code.pool
        self.cluster.command("osd pool delete", pool=pool, pool2=pool,
                             yes_i_really_really_mean_it=True)
        wait_for("no pool", lambda: not self.cluster.placement_groups(), 60, self.cluster.processes)


HEAD = "code        k  stripe_unit in B      read  /object /theory      sent /object    took"


def print_row(row):
    per_object = row["read_bytes"] / row["stored_bytes"]
    print(f"{row['code']:10}{row['k']:3}{row['stripe_unit'] >> 10:8} KiB{row['in_slot_b']:5}"
          f"{row['read_bytes'] / 1e6:9.1f} MB{per_object:8.3f}{row['read_over_theory']:8.3f}"
          f"{row['sent_bytes'] / 1e6:9.1f} MB{row['sent_bytes'] / row['stored_bytes']:8.3f}"
          f"{row['seconds']:8.1f} s", flush=True)
