"""What trials take for well and for wrong, with a cluster that only says that it is one."""

import sys
import unittest
from collections import Counter
from types import SimpleNamespace
from unittest import mock

from tests.test_demo import script, soon

sys.dont_write_bytecode = True
trials = script("trials")
By = trials.By


def ended(by, suture=(), hdfs=(), policy="RS-3-2-1024k", spare=0, cluster=None):
    """A trial in which blocks 0 to 3 were lost, that these were built by each, as often."""
    made = trials.Trial.__new__(trials.Trial)
    made.how, made.serves_all = trials.How(by, spare=spare), policy.startswith("RS-")
    made.sums, made.lost, made.wanted = {}, {}, set(range(4))
    made.dead, made.notes, made.before = [], [], {}
    built = {trials.BUILT_BY_SUTURE: Counter(suture), trials.BUILT_BY_HDFS: Counter(hdfs)}
    made.cluster = SimpleNamespace(builds=built.get, where=lambda *_, **__: {}, **(cluster or {}))
    return made


class Verdicts(unittest.TestCase):
    def judged(self, expected, *args, **how):
        made = ended(*args, **how)
        wrong = made.who_built()
        self.assertEqual(len(wrong), 1 if expected else 0, wrong)
        if expected:
            self.assertIn(expected, wrong[0])
        return made.notes

    def test_what_suture_is_to_build_it_builds_once_and_alone(self):
        notes = self.judged("", By.SUTURE, range(4))
        self.assertEqual(notes, ["4 of 4 by Suture, 0 by HDFS, 0 by both"])
        self.judged("what was Suture's", By.SUTURE, range(3), [3])
        self.judged("", By.SUTURE, range(3), [3], spare=1)
        for by in (By.SUTURE, By.SUTURE_SOME, By.BOTH):
            self.judged("1 blocks were built twice", by, range(4), [2])
        for by in (By.SUTURE, By.SUTURE_SOME):
            self.judged("Suture built 2 2 times", by, [0, 1, 2, 2, 3])

    def test_of_other_codes_hdfs_may_have_the_last_rows(self):
        self.judged("", By.SUTURE, range(3), [3], policy="BUTTERFLY-4-2-1024k")
        self.judged("Suture built nothing", By.SUTURE, [], range(4), policy="BUTTERFLY-4-2-1024k")

    def test_each_has_a_part_of_what_both_build(self):
        self.judged("", By.BOTH, [0, 1], [2, 3])
        self.judged("HDFS built nothing", By.BOTH, range(4))
        self.judged("Suture built nothing", By.SUTURE_SOME, [], range(4))

    def test_what_is_hdfs_is_nothing_for_suture(self):
        self.judged("", By.HDFS, [], range(4))
        self.judged("Suture built 1 blocks", By.HDFS, [0], [1, 2, 3])


class Ends(unittest.TestCase):
    def test_what_is_read_otherwise_or_lies_twice_is_wrong(self):
        cluster = {"is_healthy": lambda: True, "verify": lambda sums: ["f reads otherwise"],
                   "duplicates": lambda: {7}}
        with mock.patch.object(trials, "wait_for", soon), \
                mock.patch.object(trials.Trial, "note_costs"):
            wrong = ended(By.HDFS, [], range(4), cluster=cluster).check()
        self.assertEqual(wrong, ["f reads otherwise", "1 blocks lie on two DataNodes"])

    def test_every_way_to_be_hurt_has_a_trial(self):
        titles = {trial.title for trial in trials.TRIALS}
        self.assertLessEqual(
            {"node-dies", "agent-dies-in-a-commit", "coordinator-dies", "coordinator-stays-away",
             "coordinator-stands-still", "namenode-restarts", "namenode-fails-over",
             "source-is-corrupt", "node-returns", "two-nodes-die", "node-is-decommissioned",
             "hadoop-is-another", "plugins-are-off", "coordinator-is-never-there",
             "certificate-has-ended", "coordinator-certificate-has-ended",
             "plugins-cannot-be-loaded"}, titles)
        self.assertEqual(len(titles), len(trials.TRIALS), "each has a title of its own")


if __name__ == "__main__":
    unittest.main()
