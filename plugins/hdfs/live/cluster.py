"""A NameNode, DataNodes, and beside them a coordinator and agents of Suture."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

from . import hadoop
from .contents import Contents
from .processes import Failed, Processes, run, wait_for

LOG4J = """log4j.rootLogger=INFO,err
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%d{yyyy-MM-dd HH:mm:ss,SSS} %p %c{1}: %m%n
"""

# Small, and quick to start rather than to run: there are a dozen of them. They are ended without
# being asked, so what they would leave in /tmp they do not make.
JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData"]

# The longest name that a unix socket can have.
SOCKET_BYTES_MAX = 107

OPENED = {
    "dfs.namenode.replication.max-streams": "64",
    "dfs.namenode.replication.max-streams-hard-limit": "128",
    "dfs.namenode.replication.work.multiplier.per.iteration": "100",
    "dfs.datanode.ec.reconstruction.threads": "32",
    "dfs.datanode.ec.reconstruction.xmits.weight": "0.1",
}

# How Hadoop asks for the racks of nodes, by their names or addresses.
TOPOLOGY = """#!/bin/sh
for node; do
    case $node in
{cases}
    *) echo /default-rack ;;
    esac
done
"""

POLICIES = """<configuration>
<layoutversion>1</layoutversion>
<schemas><schema id="one"><codec>{codec}</codec><k>{data}</k><m>{parity}</m></schema></schemas>
<policies><policy><schema>one</schema><cellsize>{cell}</cellsize></policy></policies>
</configuration>
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Cluster(Contents):
    """Files of it lie in `folder`; processes end by `stop`."""

    def __init__(self, folder, network, version, suture, jar=None, libraries=None):
        self.folder, self.network, self.suture = folder, network, suture
        self.nodes = range(1, network.count + 1)
        self.processes = Processes(self._folder("logs"))
        self.conf = self._folder("conf")
        self.temporary = self._folder("tmp")
        self.jvm = [hadoop.java(), *JVM, f"-Djava.io.tmpdir={self.temporary}"]
        if len(os.fsencode(self.socket(network.count))) > SOCKET_BYTES_MAX:
            raise Failed(f"{folder} has too long a name for sockets in it")
        self.libraries, self.jar = hadoop.libraries(version, libraries), hadoop.jar(jar)
        # Both daemons look for folders of pages, which only an installation has.
        for pages in ("hdfs", "datanode"):
            os.makedirs(os.path.join(folder, "pages", "webapps", pages), exist_ok=True)
        self.ports = {name: free_port() for name in ("rpc", "http", "rpc-2", "http-2",
                                                        "coordinator", "hdfs")}
        # The NameNode that is asked, of a pair.
        self.active = "namenode"
        # Daemons whose heap is in memory as a whole from their start.
        self.pretouched = ()
        self.restored = 0

        self.base = free_port() if not network.is_shaped else 9866
        with open(os.path.join(self.conf, "log4j.properties"), "w") as out:
            out.write(LOG4J)

    def _folder(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(path, exist_ok=True)
        return path

    # --- HDFS

    def configure(self, plugin=True, opened=False, also=None):
        master = self.network.address(0)
        keys = {
            "fs.defaultFS": f"hdfs://{master}:{self.ports['rpc']}",
            "dfs.namenode.name.dir": self._folder("name"),
            "dfs.namenode.http-address": f"{master}:{self.ports['http']}",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.namenode.safemode.extension": "3000",
            "dfs.namenode.redundancy.interval.seconds": "3s",
            "dfs.namenode.decommission.interval": "3s",
            "dfs.namenode.heartbeat.recheck-interval": "2000",
            "dfs.heartbeat.interval": "1",
            "dfs.blocksize": str(16 << 20),
            "dfs.replication": "2",
            "dfs.permissions.enabled": "false",
            "dfs.hosts.exclude": os.path.join(self.conf, "exclude"),
            "dfs.client.read.shortcircuit": "false",
            "dfs.namenode.fs-limits.min-block-size": "65536",
            "dfs.datanode.du.reserved": "0",
            "io.file.buffer.size": "65536",
        }
        if plugin:
            keys.update({
                "dfs.namenode.plugins": "org.suture.hdfs.NameNodePlugin",
                "dfs.datanode.plugins": "org.suture.hdfs.DataNodePlugin",
                "dfs.block.placement.ec.classname": "org.suture.hdfs.SuturePlacementPolicy",
                "suture.coordinator": f"{master}:{self.ports['hdfs']}",
                "suture.credentials": os.path.join(self.folder, "certs", "namenode"),
            })
        if opened:
            keys.update(OPENED)
        keys.update(self._topology_keys())
        keys.update(also or {})
        self.active = "namenode"
        open(os.path.join(self.conf, "exclude"), "a").close()
        hadoop.write_conf(os.path.join(self.conf, "core-site.xml"),
                          {"fs.defaultFS": keys["fs.defaultFS"], "hadoop.tmp.dir": self.temporary})
        hadoop.write_conf(os.path.join(self.conf, "hdfs-site.xml"), keys)

    def _topology_keys(self):
        """Where racks are asked for, if there are any."""
        racks = self.network.racks
        if not racks.numbers():
            return {}
        path = os.path.join(self.conf, "topology")
        cases = [f"    {self.network.host(node)}) echo /r{racks.of(node)} ;;"
                 for node in self.nodes]
        with open(path, "w") as out:
            out.write(TOPOLOGY.format(cases="\n".join(cases)))
        os.chmod(path, 0o755)
        return {"net.topology.script.file.name": path,
                "net.topology.node.switch.mapping.impl": self.network.mapping}

    def java(self, name, *args, heap="256m", is_pretouched=False):
        whole = [f"-Xms{heap}", "-XX:+AlwaysPreTouch"] if is_pretouched else []
        class_path = ":".join([self.conf, os.path.join(self.folder, "pages"), self.jar,
                               self.libraries + "/*"])
        return [*self.jvm, "-Xmx" + heap, *whole, "-cp", class_path, name, *args]

    def tool(self, name, *args):
        """A command of HDFS; its output without Hadoop's own log."""
        done = subprocess.run(self.java(name, *args), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        text = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise Failed(f"{name} {' '.join(args)}: {text}{done.stderr.decode(errors='replace')}")
        return text

    def format(self):
        self.tool("org.apache.hadoop.hdfs.server.namenode.NameNode", "-format", "-nonInteractive")

    def start_namenode(self, name="namenode", *args):
        self.processes.start(name, self.java(
            "org.apache.hadoop.hdfs.server.namenode.NameNode", *args, heap="512m",
            is_pretouched=name in self.pretouched))

    def pair_keys(self):
        """Two NameNodes with one journal in a folder, failed over by hand."""
        master = self.network.address(0)
        keys = {"dfs.nameservices": "pair", "dfs.ha.namenodes.pair": "nn1,nn2",
                "dfs.namenode.shared.edits.dir": "file://" + self._folder("journal"),
                "dfs.ha.fencing.methods": "shell(/bin/true)",
                "dfs.ha.tail-edits.period": "1s",
                # Clients try the other one soon.
                "ipc.client.connect.max.retries": "1",
                "dfs.client.failover.proxy.provider.pair":
                    "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
                "fs.defaultFS": "hdfs://pair"}
        for node, end in (("nn1", ""), ("nn2", "-2")):
            keys[f"dfs.namenode.rpc-address.pair.{node}"] = f"{master}:{self.ports['rpc' + end]}"
            keys[f"dfs.namenode.http-address.pair.{node}"] = f"{master}:{self.ports['http' + end]}"
        return keys

    def start_pair(self):
        """Both NameNodes, from the names that one has written alone; the first is active."""
        namenode = "org.apache.hadoop.hdfs.server.namenode.NameNode"
        first = "-Ddfs.ha.namenode.id=nn1"
        shutil.rmtree(os.path.join(self.folder, "journal"), ignore_errors=True)
        self._folder("journal")
        self.tool(namenode, first, "-initializeSharedEdits", "-nonInteractive")
        second = os.path.join(self.folder, "name-2")
        shutil.rmtree(second, ignore_errors=True)
        shutil.copytree(os.path.join(self.folder, "name"), second)
        self.start_namenode("namenode", first)
        self.start_namenode("namenode-2", "-Ddfs.ha.namenode.id=nn2",
                            f"-Ddfs.namenode.name.dir={second}")
        self.make_active("nn1")

    def make_active(self, which, *how):
        def is_active():
            try:
                self.tool("org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-ns", "pair",
                          "-transitionToActive", *how, which)
                return True
            except Failed:
                return False

        wait_for(f"{which} active", is_active, 90, self.processes, every=1)

    def fail_over(self):
        """The active NameNode is killed, and the other one takes its place."""
        self.processes.kill("namenode")
        self.make_active("nn2", "--forceactive")
        self.active = "namenode-2"

    def datanode_name(self, node):
        """What the NameNode calls it to Suture."""
        return f"{self.network.host(node)}:{self._datanode_ports(node)[0]}"

    def datanode_address(self, node):
        """As in the NameNode's log and in lists of nodes."""
        return f"{self.network.address(node)}:{self._datanode_ports(node)[0]}"

    def _datanode_ports(self, node):
        """Where it transfers blocks, shows itself, and is called."""
        step = 1 if self.network.is_shaped else 0
        return [self.network.port(self.base, 4 * node + i) + step * i for i in range(3)]

    def start_datanode(self, node, sockets=True):
        address, ports = self.network.address(node), self._datanode_ports(node)
        command = self.java(
            "org.apache.hadoop.hdfs.server.datanode.DataNode",
            f"-Ddfs.datanode.data.dir={self._folder('data', str(node))}",
            f"-Ddfs.datanode.address={address}:{ports[0]}",
            f"-Ddfs.datanode.http.address={address}:{ports[1]}",
            f"-Ddfs.datanode.ipc.address={address}:{ports[2]}",
            f"-Ddfs.datanode.hostname={self.network.host(node)}",
            *([f"-Dsuture.agent.socket={self.socket(node)}"] if sockets else []),
            is_pretouched=f"datanode-{node}" in self.pretouched)
        self.processes.start(f"datanode-{node}", self.network.inside(node, command))

    def socket(self, node):
        return os.path.join(self.folder, f"dn{node}.sock")

    def rebuilt(self):
        """What the coordinator wrote down of blocks that Suture rebuilt, one entry for each."""
        path = os.path.join(self.folder, "coordinator", "rebuilt.jsonl")
        found = {}
        if os.path.exists(path):
            with open(path) as lines:
                for line in map(json.loads, lines):
                    found.setdefault(line["block"], {}).update(line)
        return found

    def jmx(self, bean):
        """What the active NameNode shows of itself."""
        port = self.ports["http" if self.active == "namenode" else "http-2"]
        return self._jmx(f"{self.network.address(0)}:{port}", "NameNode", bean)

    def datanode_jmx(self, node, bean):
        """What a DataNode shows of itself."""
        port = self._datanode_ports(node)[1]
        return self._jmx(f"{self.network.address(node)}:{port}", "DataNode", bean)

    @staticmethod
    def _jmx(address, service, bean):
        url = f"http://{address}/jmx?qry=Hadoop:service={service},name={bean}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                beans = json.load(answer)["beans"]
                return beans[0] if beans else {}
        except OSError:
            return {}

    def wait_for_datanodes(self, count):
        def ready():
            live = self.jmx("FSNamesystemState").get("NumLiveDataNodes")
            return live == count and self.jmx("NameNodeInfo").get("Safemode") == ""

        wait_for(f"{count} DataNodes", ready, 180, self.processes)

    def start_hdfs(self, sockets=True, is_pair=False):
        if is_pair:
            self.start_pair()
        else:
            self.start_namenode()
        for node in self.nodes:
            self.start_datanode(node, sockets)
        self.wait_for_datanodes(len(self.nodes))
        # On a busy machine some DataNodes tell their blocks late, and the NameNode has begun to
        # rebuild those by then; what it has under way would be nobody else's to repair.
        wait_for("the blocks of all DataNodes", self.has_nothing_under_way, 420, self.processes)

    def has_nothing_under_way(self):
        state = self.jmx("FSNamesystem")
        waiting = ("PendingReconstructionBlocks", "LowRedundancyBlocks", "PendingDeletionBlocks")
        return bool(state) and all(state.get(name) == 0 for name in waiting)

    # --- Suture

    def certificates(self):
        certs = self._folder("certs")
        authority = os.path.join(certs, "authority")
        if os.path.exists(authority):
            return

        def cert(*args):
            run([self.suture, "cert", *args, "--authority", authority])

        run([self.suture, "cert", "init", "--authority", authority])
        cert("node", "coordinator", "--coordinator", "--out", os.path.join(certs, "coordinator"))
        cert("node", "namenode", "--keeper", "--out", os.path.join(certs, "namenode"))
        cert("user", "operator", "--role", "admin", "--out", os.path.join(certs, "operator"))
        for node in self.nodes:
            cert("node", self.datanode_name(node), "--out", os.path.join(certs, f"agent-{node}"))

    def start_coordinator(self, mode="repair", policy="suture"):
        master = self.network.address(0)
        config = os.path.join(self.conf, "coordinator.toml")
        with open(config, "w") as out:
            out.write(f"""listen = "{master}:{self.ports['coordinator']}"
data_dir = "{self._folder('coordinator')}"
credentials = "{self.folder}/certs/coordinator"
[repair]
policy = "{policy}"
[timers]
suspect = "3s"
stall = "20s"
retry_max = "5s"
[backup]
every = "off"
[hdfs]
mode = "{mode}"
listen = "{master}:{self.ports['hdfs']}"
lease = "6s"
poll = "500ms"
""")
        self.processes.start("coordinator", [self.suture, "coordinator", "--config", config])

    def start_agent(self, node, limit=None):
        address = self.network.address(node)
        config = os.path.join(self.conf, f"agent-{node}.toml")
        rates = f'uplink = "{limit}Mbit"\ndownlink = "{limit}Mbit"\n' if limit else ""
        with open(config, "w") as out:
            out.write(f"""coordinator = "{self.network.address(0)}:{self.ports['coordinator']}"
listen = "{address}:{self.network.port(7401, 0) if self.network.is_shaped else 0}"
data_dir = "{self._folder('agents', str(node))}"
credentials = "{self.folder}/certs/agent-{node}"
memory = "256MiB"
{rates}[timers]
heartbeat = "250ms"
[hdfs]
socket = "{self.socket(node)}"
""")
        command = [self.suture, "agent", "--config", config]
        self.processes.start(f"agent-{node}", self.network.inside(node, command))

    def start_suture(self, mode="repair", policy="suture", limit=None):
        self.start_coordinator(mode, policy)
        for node in self.nodes:
            self.start_agent(node, limit)
        self.wait_for_agents(len(self.nodes))

    def operator(self, *args):
        at = f"{self.network.address(0)}:{self.ports['coordinator']}"
        env = {**os.environ, "SUTURE_CREDENTIALS": os.path.join(self.folder, "certs", "operator")}
        done = subprocess.run([self.suture, *args, "--coordinator", at], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        if done.returncode not in (0, 3):
            raise Failed(f"suture {' '.join(args)}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def status(self):
        return json.loads(self.operator("status", "--format", "json"))

    def wait_for_agents(self, count):
        def ready():
            try:
                nodes = self.status()["nodes"]
            except Failed:
                return False
            return sum(node["health"] == "up" for node in nodes) >= count

        wait_for(f"{count} agents", ready, 90, self.processes, every=0.5)

    # --- files and blocks

    def write_files(self, files, policy):
        """Files of these sizes under /ec; what each must read as."""
        ec = "org.apache.hadoop.hdfs.tools.ECAdmin"
        if policy not in self.tool(ec, "-listPolicies"):
            added = self.tool(ec, "-addPolicies", "-policyFile", self._policy_file(policy))
            if f"{policy} succeed" not in added:
                raise Failed(f"the policy {policy} cannot be added: {added}")
        self.tool(ec, "-enablePolicy", "-policy", policy)
        shell = "org.apache.hadoop.fs.FsShell"
        self.tool(shell, "-mkdir", "-p", "/ec")
        self.tool(ec, "-setPolicy", "-path", "/ec", "-policy", policy)
        local, sums = self._folder("files"), {}
        for name, size in files.items():
            path = os.path.join(local, name)
            with open(path, "wb") as out:
                left = size
                while left:
                    part = os.urandom(min(left, 8 << 20))
                    out.write(part)
                    left -= len(part)
            sums[name] = self.sha256(path)
        names = [os.path.join(local, name) for name in files]
        self.tool(shell, "-put", *names, "/ec/")
        shutil.rmtree(local)
        return sums

    def _policy_file(self, policy):
        """What `hdfs ec -addPolicies` reads: NAME-K-M-CELLk, as HDFS names policies."""
        codec, data, parity, cell = policy.rsplit("-", 3)
        path = os.path.join(self.conf, "policies.xml")
        with open(path, "w") as out:
            out.write(POLICIES.format(codec=codec.lower(), data=data, parity=parity,
                                      cell=int(cell[:-1]) << 10))
        return path

    def dead_at(self, node, after):
        """When the NameNode gave up a DataNode."""
        address = self.datanode_address(node)
        for line in self.processes.log("namenode").splitlines():
            if "emoveDeadDatanode" in line and address in line or (
                    "ost heartbeat from" in line and address in line):
                when = time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S"))
                when += int(line[20:23]) / 1000
                if when >= after:
                    return when
        return None

    def exclude(self, *nodes):
        """Has the NameNode drain DataNodes; when it was told to."""
        with open(os.path.join(self.conf, "exclude"), "w") as out:
            out.writelines(self.datanode_address(node) + "\n" for node in nodes)
        begun = time.time()
        self.tool("org.apache.hadoop.hdfs.tools.DFSAdmin", "-refreshNodes")
        return begun

    def have_left(self, *nodes):
        leaving = self.jmx("FSNamesystemState")
        return leaving.get("NumDecomLiveDataNodes") == len(nodes)

    def stop(self):
        self.processes.stop_all()
