"""What daemons keep in memory, and what of it is a plugin's."""

import contextlib
import dataclasses
import re
import shutil
import time

from .processes import Failed, need, run

MIB = 1 << 20
# What a plugin may take in its daemon.
LIMIT_MIB = 64
# Each look has a daemon collect its garbage, which takes it from its work.
LOOK_SECONDS = 5
REST, REPAIR = "rest", "repair"


@dataclasses.dataclass(frozen=True)
class Sample:
    """Of one daemon, in bytes."""

    # All of the process: with a heap that is in memory as a whole, what is not on it changes this.
    resident: int
    # What a collection leaves on the heap.
    heap: int

    def at_most(self, other):
        """What it would take to hold both, each at its time."""
        return Sample(max(self.resident, other.resident), max(self.heap, other.heap))

    def __sub__(self, other):
        return Sample(self.resident - other.resident, self.heap - other.heap)

    @property
    def all_mib(self):
        return round((self.resident + self.heap) / MIB, 1)

    def json(self):
        return {"resident_mib": round(self.resident / MIB, 1),
                "heap_mib": round(self.heap / MIB, 1)}


def used_of_heap(text):
    """What `jcmd PID GC.heap_info` says is used."""
    # The generations; metaspace stands below them without `total`.
    return sum(int(used) for used in re.findall(r"total \d+K, used (\d+)K", text)) << 10


def bytes_of_status(text, field):
    """A field of /proc/PID/status that is a size."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    if not found:
        raise Failed(f"/proc/PID/status has no {field}")
    return int(found[1]) << 10


def heap_bytes(pid):
    """What a daemon's heap holds after a collection."""
    ask = ["jcmd", "-J-XX:-UsePerfData", str(pid)]
    run([*ask, "GC.run"])
    return used_of_heap(run([*ask, "GC.heap_info"]))


def heap_if_there_is_jcmd(cluster, name):
    """As `heap_bytes`, of a daemon by its name; none where it cannot be asked."""
    if not shutil.which("jcmd") or not cluster.processes.is_running(name):
        return None
    with contextlib.suppress(Failed):
        return heap_bytes(cluster.processes.running[name].pid)
    return None


class Watch:
    """Looks at some daemons while something is repaired."""

    def __init__(self, cluster, names):
        need("jcmd", "it comes with a JDK, and has a daemon collect its garbage and count the rest")
        self.cluster, self.names = cluster, names
        self.found, self.looked = {}, 0.0

    def rest(self):
        """At rest, after a while without work; what is the most begins anew."""
        for name in self.names:
            self.found[name, REST] = self._sample(name, "VmRSS")
            path = f"/proc/{self._pid(name)}/clear_refs"
            with contextlib.suppress(OSError), open(path, "w") as forget:
                # The kernel forgets what was the most so far.
                forget.write("5")

    def look(self):
        """In a repair, not too often."""
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            self.repair()

    def repair(self):
        """In a repair, or at its end: the most of it that was seen counts."""
        for name in self.names:
            sample = self._sample(name, "VmHWM")
            self.found[name, REPAIR] = sample.at_most(self.found.get((name, REPAIR), sample))
        self.looked = time.monotonic()

    def _pid(self, name):
        return self.cluster.processes.running[name].pid

    def _sample(self, name, field):
        heap = heap_bytes(self._pid(name))
        with open(f"/proc/{self._pid(name)}/status") as status:
            return Sample(bytes_of_status(status.read(), field), heap)


class Costs:
    """Of the same daemons on the same data, without the plugin and with it."""

    def __init__(self, without, having):
        self.without, self.having = without, having
        self.names = sorted({name for name, _ in without}, reverse=True)

    def at_most_mib(self, name):
        """What the plugin takes at most.

        Whatever a daemon needs more in a repair than it does at rest without the plugin counts for
        the plugin, though the daemon has work of its own then."""
        rest = self.without[name, REST]
        return max((self.having[name, when] - rest).all_mib for when in (REST, REPAIR))

    def is_within(self):
        return all(self.at_most_mib(name) < LIMIT_MIB for name in self.names)

    def json(self):
        found = {"limit_mib": LIMIT_MIB, "is_within": self.is_within()}
        for name in self.names:
            found[kind(name)] = {
                **{when: {"without": self.without[name, when].json(),
                          "with": self.having[name, when].json()} for when in (REST, REPAIR)},
                "plugin_mib_at_most": self.at_most_mib(name)}
        return found

    def lines(self):
        columns = f"{'without':>9}{'with':>9}{'more':>9}"
        yield f"{'MiB':33}{'resident':>27}  {'on the heap, collected':>27}"
        yield f"{'':33}{columns}  {columns}"
        for name in self.names:
            for when in (REST, REPAIR):
                off, on = self.without[name, when], self.having[name, when]
                numbers = [*map(self._three, (off.resident, off.heap), (on.resident, on.heap))]
                yield f"{f'{kind(name)}, {self._when(when)}':33}" + "  ".join(numbers)
        for name in self.names:
            most = self.at_most_mib(name)
            said = "met" if most < LIMIT_MIB else "MISSED"
            yield (f"the plugin takes at most {most} MiB in a {kind(name)}, with all that it needs "
                   f"more in a repair than at rest; less than {LIMIT_MIB}: {said}")

    @staticmethod
    def _three(off, on):
        return f"{off / MIB:9.1f}{on / MIB:9.1f}{(on - off) / MIB:+9.1f}"

    @staticmethod
    def _when(when):
        return "at rest" if when == REST else "at most in a repair"


def kind(name):
    """What a daemon is, without its number."""
    return name.split("-")[0]
