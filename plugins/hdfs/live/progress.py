"""How long repairs are going to take: said before they begin, and again as each ends.

The numbers are of two cores and links of 50 Mbit/s; what a run has shown of itself takes their
place."""

import time

# Of the bound, what each repair reached there: as `docs/hdfs.md` says of Suture, and as HDFS did in
# runs without Suture.
SHARE = {"suture": 1.0, "flow": 0.9, "opened": 0.55, "default": 0.34}
# HDFS has a leaving node send what it has, and then sits on a part of it until it takes that for
# failed.
COPY_SECONDS = 600
# A daemon of Hadoop begins, a file is verified and read again, and the NameNode gives a node up.
DAEMON_SECONDS, FILE_SECONDS, GIVEN_UP_SECONDS = 2, 5, 16
WRITTEN_BYTES_PER_SECOND = 40e6


def bound_seconds(lost_bytes, data, survivors, bytes_per_second):
    """The time of k chunks for each lost one, over all links that are left."""
    return data * lost_bytes / (survivors * bytes_per_second)


def repairing_seconds(repair, lost_bytes, bound, bytes_per_second):
    """What may be expected of a repair alone."""
    if repair.leaves and not repair.is_suture:
        return lost_bytes / bytes_per_second + COPY_SECONDS
    # Other policies than these are the demo's to try.
    return bound / SHARE.get(repair.how, 0.5)


def beside_seconds(datanodes, files):
    """What is done around each repair: it begins from the same files, and is verified."""
    return datanodes * DAEMON_SECONDS + GIVEN_UP_SECONDS + files * FILE_SECONDS


def told(seconds):
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"


class Progress:
    """Of repairs one after another."""

    def __init__(self, repairs, beside, of_one):
        # `beside`: what each takes beside itself; `of_one`: what is expected of each by itself.
        self.left, self.beside, self.of_one = list(repairs), beside, of_one
        self.count, self.seen = len(self.left), []
        self.began = time.monotonic()

    def ended(self, repair, repairing, all_of_it):
        """It took so long by itself, and so long with what is done around it; none: it failed."""
        self.left.remove(repair)
        if repairing is not None:
            self.seen.append(all_of_it - repairing)

    def seconds_left(self):
        beside = sum(self.seen) / len(self.seen) if self.seen else self.beside
        return sum(beside + self.of_one(repair) for repair in self.left)

    def line(self):
        done = self.count - len(self.left)
        return (f"{done} of {self.count} repairs done after "
                f"{told(time.monotonic() - self.began)}; about {told(self.seconds_left())} to go")
