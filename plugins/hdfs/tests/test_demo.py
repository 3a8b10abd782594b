"""The demo's course and its words, with a cluster that only says that it is one."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import signal
import sys
import tempfile
import unittest
from collections import Counter
from unittest import mock

from live.goals import ALL, CHUNKS, COPIED, DECODED, DEFAULT, OPENED, TRACES, goals, times_as_fast
from live.memory import MIB, REPAIR, REST, Sample
from live.processes import ENDING, Failed, Loopback, Racks, TooLate
from live.progress import Progress, beside_seconds, bound_seconds, repairing_seconds, told

sys.dont_write_bytecode = True
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(FOLDER, "..", "..", "docs", "hdfs.md")


def script(name):
    """A command of this plugin as a module."""
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(FOLDER, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


demo = script("demo")


def arguments(*words):
    with mock.patch.object(sys, "argv", ["demo", *words]):
        return demo.arguments()


class Daemons:
    """Processes that are none."""

    def __init__(self):
        self.killed = []

    def kill(self, name):
        self.killed.append(name)

    def log(self, name):
        return "HDFS leaves its lost blocks to Suture"

    def path(self, name):
        return "/none/" + name

    def is_running(self, name):
        return True


class FakeCluster:
    """Ten DataNodes with blocks of 16 MiB, of which the third has most; rebuilt at once."""

    ends_by_itself = True
    broken = ()

    def __init__(self, *_):
        self.nodes = range(1, 11)
        self.processes = Daemons()
        self.pretouched, self.policy = (), None

    def certificates(self):
        pass

    def configure(self, plugin, opened=False, also=None):
        self.is_suture = plugin

    format = start_hdfs = stop = certificates

    def snapshot(self, name):
        pass

    restore = snapshot

    def start_suture(self, policy, limit):
        self.policy = policy
        if policy in self.broken:
            raise Failed("a disk is full")

    def write_files(self, files, policy):
        return {name: "" for name in files}

    def blocks(self, node):
        count = 4 if node == 3 else 2
        return {-100 * node - i: (16 * MIB, 1.0) for i in range(count)}

    def where(self, lost, without):
        everything = self.is_suture or self.ends_by_itself
        return {block: self.begun + 8.0 for block in list(lost)[0 if everything else 1:]}

    def exclude(self, node):
        self.begun = 1e9
        return self.begun

    def dead_at(self, node, after):
        self.begun = after + 12
        return self.begun

    def have_left(self, *_):
        return True

    is_healthy = have_left

    def verify(self, sums, say):
        return []

    def duplicates(self):
        return set()

    def builds(self, pattern):
        return Counter(list(self.blocks(3)))

    def rebuilt(self):
        return self.blocks(3)

    def jmx(self, bean):
        return {"ClaimLockMicrosMax": 700, "GroupsLockMicrosMax": 900, "ClaimBatchMax": 4}


class FakeWatch:
    """Daemons that need 100 MiB, and 20 and 30 more with the plugin."""

    def __init__(self, cluster, names):
        self.cluster, self.names, self.found = cluster, names, {}

    def _look(self, when, more):
        having = MIB * more if self.cluster.is_suture else 0
        self.found.update({(name, when): Sample(100 * MIB + having, 10 * MIB + having // 10)
                           for name in self.names})

    def rest(self):
        self._look(REST, 20)

    def look(self):
        pass

    def repair(self):
        self._look(REPAIR, self.more_in_a_repair)

    more_in_a_repair = 30


class Course(unittest.TestCase):
    def run_demo(self, *words, cluster=FakeCluster, links=None):
        """Runs it; its exit status, and what it says."""
        said, told_beside = io.StringIO(), io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as changed:
            for name, stand_in in (
                    ("Cluster", cluster), ("Watch", FakeWatch), ("suture", lambda given: "suture"),
                    ("network", lambda count, _, racks: (links or Shaped)(
                        count, "that needs root", racks)),
                    ("heap_if_there_is_jcmd", lambda cluster, name: 10 * MIB),
                    ("wait_for", soon)):
                changed.enter_context(mock.patch.object(demo, name, stand_in))
            changed.enter_context(contextlib.redirect_stdout(said))
            changed.enter_context(contextlib.redirect_stderr(told_beside))
            made = demo.Demo(arguments("--folder", folder, *words))
            status = made.run()
            made.close()
        self.assertEqual(made.victim, 3, "the one that has most")
        return status, said.getvalue(), told_beside.getvalue()

    def test_two_repairs_are_compared(self):
        status, said, _ = self.run_demo("--groups", "2", "--datanodes", "10")
        self.assertEqual(status, 0, said)
        self.assertIn("this takes about", said)
        self.assertIn("2 of 2 repairs done", said)
        self.assertIn("Suture, suture was 1.00 times as fast as HDFS, throttles opened", said)
        self.assertIn("held for 0.70 ms at most for a batch of claims (of 4 at most)", said)

    def test_json_has_the_fields_that_are_promised(self):
        status, said, beside = self.run_demo("--groups", "2", "--datanodes", "10", "--racks", "5",
                                             "--rack-link", "100", "--format", "json")
        answer = json.loads(said)
        self.assertEqual((status, answer["verified"], answer["racks"]), (0, True, 5))
        self.assertEqual(answer["suture"]["seconds"], 8.0)
        self.assertEqual(set(answer["hdfs"]), {"seconds", "percent_of_bound"})
        self.assertEqual(answer["lost_bytes"], 64 * MIB)
        self.assertIn("in 5 racks, and of 100 Mbit/s between racks", beside)

    def test_every_field_of_the_json_is_explained(self):
        with open(PAGE) as page:
            explained = page.read()
        for words in (["--all"], ["--memory"]):
            _, said, _ = self.run_demo(*words, "--groups", "2", "--datanodes", "10", "--format",
                                       "json")
            answer = json.loads(said)
            for field in {*answer, *answer["repairs"][0], *answer["suture"]}:
                self.assertIn(f"`{field}`", explained)

    def test_without_links_limits_and_keys_stand_in_and_that_is_said(self):
        seen = {}

        class Limited(FakeCluster):
            def configure(self, plugin, opened=False, also=None):
                super().configure(plugin)
                seen[plugin] = also or {}

            def start_suture(self, policy, limit):
                super().start_suture(policy, limit)
                seen["limit"] = limit

        status, said, _ = self.run_demo("--groups", "2", "--datanodes", "10", cluster=Limited,
                                        links=Loopback)
        self.assertEqual(status, 0, said)
        self.assertIn("no links of its own (that needs root): agents' limits and HDFS's keys stand "
                      "in", said)
        keys = {f"dfs.datanode.ec.reconstruct.{way}.bandwidthPerSec": "6250000"
                for way in ("read", "write")}
        self.assertEqual(seen, {"limit": 50, True: {}, False: keys})

    def test_a_repair_that_fails_is_no_end_of_the_others(self):
        broken = type("Broken", (FakeCluster,), {"broken": ("flow",)})
        status, said, _ = self.run_demo("--all", "--groups", "2", "--datanodes", "10",
                                        cluster=broken)
        self.assertEqual(status, 1)
        self.assertIn("WRONG after Suture, flow: a disk is full", said)
        self.assertIn("6 of 6 repairs done", said)
        self.assertIn("copied from one node they take ", said)

    def test_hdfs_that_does_not_come_to_an_end_is_waited_for_and_then_said_so(self):
        stuck = type("Stuck", (FakeCluster,), {"ends_by_itself": False})
        status, said, _ = self.run_demo("--groups", "2", "--datanodes", "10", cluster=stuck)
        self.assertEqual(status, 0, said)
        self.assertIn("not ended", said)
        self.assertIn("Suture, suture was more than ", said)

    def test_memory_is_that_of_both_daemons_and_is_bounded(self):
        words = ("--memory", "--groups", "2", "--datanodes", "10")
        status, said, _ = self.run_demo(*words)
        self.assertEqual(status, 0, said)
        self.assertIn("takes at most 33.0 MiB in a namenode", said)
        answer = json.loads(self.run_demo(*words, "--format", "json")[1])
        self.assertTrue(answer["memory"]["is_within"])
        self.assertEqual(answer["memory"]["datanode"]["rest"]["with"]["resident_mib"], 120.0)
        with mock.patch.object(FakeWatch, "more_in_a_repair", 60):
            status, said, _ = self.run_demo(*words)
        self.assertEqual(status, 1)
        self.assertIn("66.0 MiB in a datanode", said)
        self.assertIn("MISSED", said)


class Shaped(Loopback):
    is_shaped = True


def soon(what, condition, *_, **__):
    """As `wait_for`, of what is so at once or never."""
    found = condition()
    if not found:
        raise TooLate(f"{what}: not within 0 s")
    return found


class Interruption(unittest.TestCase):
    def interrupt(self, sig):
        """Has the demo get a signal when it has begun; its exit status, what it says, and it."""
        begun = []

        def run(made):
            made.folder = tempfile.mkdtemp()
            made.cluster, made.network = mock.Mock(), mock.Mock()
            begun.append(made)
            signal.raise_signal(sig)
            self.fail("it goes on")

        before = {other: signal.getsignal(other) or signal.SIG_DFL for other in ENDING}
        said = io.StringIO()
        try:
            with mock.patch.object(demo.Demo, "run", run), \
                    mock.patch.object(sys, "argv", ["demo", "--format", "json"]), \
                    contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
                return demo.main(), said.getvalue(), begun[0]
        finally:
            for other, handler in before.items():
                signal.signal(other, handler)

    def test_whatever_ends_it_nothing_is_left_and_the_json_says_so(self):
        for sig in ENDING:
            with self.subTest(sig):
                status, said, made = self.interrupt(sig)
                self.assertEqual(status, 130)
                self.assertEqual(json.loads(said), {
                    "error": "interrupted: everything that was started is ended",
                    "status": 130, "repairs": []})
                made.cluster.stop.assert_called_once()
                made.network.close.assert_called_once()
                self.assertFalse(os.path.exists(made.folder))


class Options(unittest.TestCase):
    def test_what_does_not_go_together_is_refused_in_words(self):
        for words, why in (
                ("--full --groups 8", "--full has 56 groups"),
                ("--full --link 100", "--full is of 12 DataNodes"),
                ("--full --racks 3", "leave out --only"),
                ("--all --policy flow", "--all runs them all"),
                ("--memory --only suture", "--memory compares two runs"),
                ("--rack-link 100", "say --racks"),
                ("--racks 13", "more than there are DataNodes"),
                ("--undeclared --unshaped", "--unshaped makes none")):
            with self.subTest(words):
                said, beside = io.StringIO(), io.StringIO()
                with contextlib.redirect_stdout(said), contextlib.redirect_stderr(beside), \
                        self.assertRaises(SystemExit) as ended:
                    arguments(*words.split(), "--format", "json")
                self.assertEqual(ended.exception.code, 2)
                self.assertIn(why, json.loads(said.getvalue())["error"])
                self.assertIn(why, beside.getvalue())

    def test_full_measures_all_of_them(self):
        self.assertEqual(demo.repairs(arguments("--full")), ALL)
        self.assertEqual(arguments("--full").groups, 56)
        self.assertEqual([repair.who for repair in demo.repairs(arguments("--only", "hdfs"))],
                         ["hdfs"])


class Goals(unittest.TestCase):
    @staticmethod
    def results():
        def result(seconds, percent):
            return {"seconds": seconds, "percent_of_bound": percent, "waited_seconds": seconds,
                    "lost_bytes": 750_000_000}

        found = {TRACES: result(50.0, 140.0), CHUNKS: result(75.0, 93.0),
                 OPENED: result(120.0, 58.0), DEFAULT: result(200.0, 35.0),
                 DECODED: result(60.0, 110.0), COPIED: result(300.0, 23.0)}
        found[TRACES]["claim_lock_ms_max"] = 0.8
        return found

    def test_each_is_met_by_what_reaches_it(self):
        reached = goals(self.results())
        self.assertEqual([goal.found for goal in reached], [750.0, 93.0, 1.6, 2.4, 5.0, 0.8])
        self.assertTrue(all(goal.is_met for goal in reached))

    def test_each_is_missed_by_what_does_not(self):
        found = self.results()
        found[OPENED]["seconds"], found[COPIED]["seconds"] = 90.0, 200.0
        found[CHUNKS]["percent_of_bound"], found[TRACES]["claim_lock_ms_max"] = 89.9, 10.0
        found[DEFAULT]["lost_bytes"] = 690_000_000
        self.assertFalse(any(goal.is_met for goal in goals(found)))
        self.assertTrue(all("MISSED" in goal.line() for goal in goals(found)))

    def test_what_was_not_measured_is_missed(self):
        self.assertFalse(any(goal.is_met for goal in goals({})))
        self.assertIn("none", goals({})[0].line())

    def test_what_has_not_ended_is_so_much_slower_at_least(self):
        found = self.results()
        found[COPIED].update(seconds=None, waited_seconds=3000.0)
        self.assertEqual(times_as_fast(found, DECODED, COPIED), (50.0, True))
        self.assertIn("> 50.00", goals(found)[4].line())


class Estimates(unittest.TestCase):
    def test_a_measurement_takes_about_an_hour(self):
        bytes_per_second = 50e6 * 1448 / 1514 / 8
        lost = 740_000_000
        bound = bound_seconds(lost, 6, 11, bytes_per_second)
        # Six times as much, over eleven links.
        self.assertAlmostEqual(bound, 67.5, places=1)
        progress = Progress(ALL, beside_seconds(12, 59),
                            lambda repair: repairing_seconds(repair, lost, bound, bytes_per_second))
        self.assertTrue(1800 < progress.seconds_left() < 7200, progress.seconds_left())

    def test_what_a_run_has_shown_counts_for_what_is_left(self):
        progress = Progress(ALL, 1000, lambda repair: 100)
        self.assertEqual(progress.seconds_left(), 6600)
        progress.ended(ALL[0], 80, 130)
        self.assertEqual(progress.seconds_left(), 5 * 150)
        progress.ended(ALL[1], None, 9000)
        self.assertEqual(progress.seconds_left(), 4 * 150)
        self.assertIn("2 of 6 repairs done", progress.line())
        self.assertIn("about 10 min to go", progress.line())
        self.assertEqual(told(4 * 3600), "4.0 h")


if __name__ == "__main__":
    unittest.main()
