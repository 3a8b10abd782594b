"""What repairs are to reach on twelve DataNodes with links of 50 Mbit/s, and what they reached."""

import dataclasses

LOST_BYTES_MIN = 700_000_000


@dataclasses.dataclass(frozen=True)
class Repair:
    """One of the repairs that are compared."""

    # Or HDFS's.
    is_suture: bool
    # Of Suture the policy, of HDFS its throttles.
    how: str
    # The DataNode leaves, and nothing is lost.
    leaves: bool = False

    @property
    def who(self):
        return "suture" if self.is_suture else "hdfs"

    @property
    def name(self):
        name = f"Suture, {self.how}" if self.is_suture else f"HDFS, throttles {self.how}"
        return name + (", decommission" if self.leaves else "")


# `suture` sends traces of chunks where that is less, `flow` whole chunks.
TRACES, CHUNKS = Repair(True, "suture"), Repair(True, "flow")
OPENED, DEFAULT = Repair(False, "opened"), Repair(False, "default")
DECODED, COPIED = Repair(True, "suture", True), Repair(False, "opened", True)
ALL = [TRACES, CHUNKS, OPENED, DEFAULT, DECODED, COPIED]


@dataclasses.dataclass(frozen=True)
class Goal:
    """A number that is to be so much; or less than that."""

    what: str
    wanted: float
    unit: str
    # None: it was not measured.
    found: float | None
    is_most: bool = False
    # The other one had not come to its end when it was no longer waited for.
    is_at_least: bool = False

    @property
    def is_met(self):
        if self.found is None:
            return False
        return self.found < self.wanted if self.is_most else self.found >= self.wanted

    def json(self):
        return {"what": self.what, "wanted": self.wanted, "found": self.found,
                "at_least": self.is_at_least, "met": self.is_met}

    def line(self):
        sign = "<" if self.is_most else ">="
        found = "none" if self.found is None else \
            f"{'> ' if self.is_at_least else ''}{self.found:.2f}"
        return (f"{self.what:58}{f'{sign} {self.wanted:g}':>8}{found:>10} {self.unit:4}"
                f"{'met' if self.is_met else 'MISSED'}")


def times_as_fast(results, ours, theirs):
    """How much sooner ours came to its end; and whether that is only the least it can be."""
    mine, other = (results.get(repair) for repair in (ours, theirs))
    if not mine or not other or mine["seconds"] is None:
        return None, False
    seconds = other["seconds"] or other["waited_seconds"]
    return round(seconds / mine["seconds"], 2), other["seconds"] is None


def goals(results):
    """Of the results of repairs."""
    def faster(what, wanted, ours, theirs):
        found, is_at_least = times_as_fast(results, ours, theirs)
        return Goal(what, wanted, "x", found, is_at_least=is_at_least)

    lost = [result["lost_bytes"] for result in results.values()]
    held = [result["claim_lock_ms_max"] for result in results.values()
            if "claim_lock_ms_max" in result]
    return [
        Goal("lost", LOST_BYTES_MIN / 1e6, "MB", round(min(lost) / 1e6, 1) if lost else None),
        Goal("Suture without traces, of the bound of k chunks", 90, "%",
             results.get(CHUNKS, {}).get("percent_of_bound")),
        faster("Suture without traces, beside HDFS with opened throttles", 1.5, CHUNKS, OPENED),
        faster("Suture with traces, beside HDFS with opened throttles", 2, TRACES, OPENED),
        faster("decommission, beside HDFS's copy from one", 4, DECODED, COPIED),
        Goal("the NameNode's lock, held for a batch of claims", 10, "ms",
             max(held) if held else None, is_most=True),
    ]
