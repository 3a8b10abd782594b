"""Racks, memory and what is of no use to daemons, each by itself."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import zipfile
from types import SimpleNamespace

from live import flaws
from live.cluster import TOPOLOGY, Cluster, free_port
from live.memory import MIB, REPAIR, REST, Costs, Sample, bytes_of_status, used_of_heap
from live.processes import Failed, Loopback, Namespaces, Racks, network, run

HEAP = """4711:
 def new generation   total 78656K, used 1398K [0x00000000f0000000, 0x00000000f5550000)
  eden space 69952K,   2% used [0x00000000f0000000, 0x00000000f015d8a8, 0x00000000f4450000)
 tenured generation   total 174784K, used 20480K [0x00000000f5550000, 0x0000000100000000)
   the space 174784K,  11% used [0x00000000f5550000, 0x00000000f6950000, 0x0000000100000000)
 Metaspace       used 31055K, committed 31488K, reserved 1114112K
"""


class Memory(unittest.TestCase):
    def test_both_generations_count_and_what_is_off_the_heap_does_not(self):
        self.assertEqual(used_of_heap(HEAP), (1398 + 20480) << 10)

    def test_fields_of_a_process_are_found(self):
        with open("/proc/self/status") as status:
            text = status.read()
        most = bytes_of_status(text, "VmHWM")
        self.assertTrue(MIB < bytes_of_status(text, "VmRSS") <= most)
        with self.assertRaises(Failed):
            bytes_of_status(text, "VmNone")

    def test_all_that_a_repair_takes_counts_for_the_plugin(self):
        def found(rest, repair):
            return {("namenode", REST): Sample(rest * MIB, MIB),
                    ("namenode", REPAIR): Sample(repair * MIB, 2 * MIB)}

        costs = Costs(found(200, 260), found(210, 262))
        self.assertEqual(costs.at_most_mib("namenode"), 63.0)
        self.assertTrue(costs.is_within())
        self.assertFalse(Costs(found(200, 260), found(210, 263)).is_within())
        lines = list(costs.lines())
        self.assertEqual(len(lines), 5)
        self.assertIn("namenode, at rest", lines[2])
        self.assertIn("+10.0", lines[2])


class Topology(unittest.TestCase):
    def configured(self, links):
        """The keys of a cluster's topology, and what the script that they name says of all."""
        with tempfile.TemporaryDirectory() as folder:
            cluster = SimpleNamespace(network=links, nodes=range(1, links.count + 1), conf=folder)
            keys = Cluster._topology_keys(cluster)
            if not keys:
                return keys, None
            hosts = [links.host(node) for node in cluster.nodes]
            said = run([keys["net.topology.script.file.name"], *hosts, "elsewhere"])
            return keys, said.split()

    def test_datanodes_lie_in_racks_by_turns_as_hadoop_asks(self):
        keys, racks = self.configured(Loopback(5, "", Racks(2)))
        self.assertEqual(racks, ["/r1", "/r2", "/r1", "/r2", "/r1", "/default-rack"])
        self.assertTrue(keys["net.topology.node.switch.mapping.impl"].endswith("$RawScript"
                                                                               "BasedMapping"))
        addresses = Namespaces.__new__(Namespaces)
        addresses.count, addresses.racks, addresses.net = 3, Racks(3), "10.1.2"
        self.assertEqual(addresses.host(3), "10.1.2.13")
        self.assertEqual(self.configured(addresses)[1], ["/r1", "/r2", "/r3", "/default-rack"])

    def test_one_rack_is_nothing_to_be_told_and_all_are_on_one_address(self):
        links = Loopback(3, "", Racks())
        self.assertEqual(self.configured(links), ({}, None))
        self.assertEqual(links.host(2), "127.0.0.1")
        self.assertIn("{cases}", TOPOLOGY)

    def test_links_of_racks_are_narrower_than_those_of_nodes(self):
        links = network(3, racks=Racks(2, 20))
        if not links.is_shaped:
            print(f"SKIPPED: links of racks, because of {links.why}", file=sys.stderr)
            self.skipTest(links.why)
        try:
            links.shape(50)
            for end in [*links._rack_ends(1), *links._rack_ends(2)]:
                self.assertIn("rate 20Mbit", run(["tc", "qdisc", "show", "dev", end]))
            self.assertIn("rate 50Mbit", run(["tc", "qdisc", "show", "dev", f"{links.tag}v3"]))
            links.unshape()
            self.assertNotIn("tbf", run(["tc", "qdisc", "show", "dev", links._rack_ends(2)[0]]))
        finally:
            links.close()
        self.assertNotIn(links.tag, run(["ip", "-o", "link"]))


class Flaws(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.cluster = SimpleNamespace(folder=self.folder, conf=self.folder,
                                       network=Loopback(1, "", Racks()),
                                       ports={"hdfs": free_port()})

    def certify(self):
        """An authority, and the coordinator's good certificate."""
        if not shutil.which("openssl"):
            self.skipTest("openssl is not there")
        folders = {name: os.path.join(self.folder, "certs", name)
                   for name in ("authority", "coordinator")}
        for folder, key in (("authority", "ca"), ("coordinator", "tls")):
            os.makedirs(folders[folder])
            run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={folder}",
                 "-keyout", os.path.join(folders[folder], key + ".key"),
                 "-out", os.path.join(folders[folder], key + ".crt")])
        return folders

    def test_a_certificate_has_ended_and_is_good_again(self):
        path = os.path.join(self.certify()["coordinator"], "tls.crt")
        asked = ["openssl", "x509", "-in", path, "-noout", "-checkend", "0"]
        with flaws.expired(self.cluster, "coordinator", "coordinator/coordinator") as renew:
            self.assertNotEqual(subprocess.run(asked, stdout=subprocess.DEVNULL).returncode, 0)
            said = run(["openssl", "x509", "-in", path, "-noout", "-text"])
            self.assertIn("suture://coordinator/coordinator", said)
            renew()
            run(asked)
        run(asked)

    def test_a_coordinator_whose_certificate_has_ended_is_met_and_not_believed(self):
        root = os.path.join(self.certify()["authority"], "ca.crt")
        with flaws.expired_coordinator(self.cluster) as met:
            for _ in range(2):
                trust = ssl.create_default_context(cafile=root)
                trust.check_hostname = False
                at = "127.0.0.1", self.cluster.ports["hdfs"]
                with socket.create_connection(at, 10) as to, \
                        self.assertRaises(ssl.SSLCertVerificationError) as refused:
                    trust.wrap_socket(to)
                self.assertIn("expired", str(refused.exception))
            self.assertEqual(len(met), 2)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", self.cluster.ports["hdfs"]), 10)

    def test_a_jar_lacks_what_is_named_for_a_while(self):
        good = self.cluster.jar = os.path.join(self.folder, "good.jar")
        with zipfile.ZipFile(good, "w") as out:
            for name in ("org/a/One.class", "org/a/Two.class", "META-INF/x"):
                out.writestr(name, name)
        with flaws.torn_jar(self.cluster, "org.a.One"):
            with zipfile.ZipFile(self.cluster.jar) as torn:
                self.assertEqual(torn.namelist(), ["org/a/Two.class", "META-INF/x"])
        self.assertEqual(self.cluster.jar, good)
        with self.assertRaisesRegex(Failed, "org/a/None.class"), \
                flaws.torn_jar(self.cluster, "org.a.None"):
            pass

    def test_another_version_is_said_for_a_while(self):
        with flaws.other_version(self.cluster):
            with open(os.path.join(self.folder, "common-version-info.properties")) as said:
                self.assertIn("version=3.2.4\n", said.read())
        with contextlib.suppress(FileExistsError):
            self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
