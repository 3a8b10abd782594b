"""What lies on the disks of a cluster, what HDFS says of it, and how it is put back."""

import contextlib
import glob
import hashlib
import os
import re
import shutil
from collections import Counter

from .processes import Failed

# A rebuilt block as the plugin and as HDFS say it in a DataNode's log.
BUILT_BY_SUTURE = re.compile(r"Suture: committed \S*?blk_(-\d+)_")
BUILT_BY_HDFS = re.compile(r"Received \S*?blk_(-\d+)_\d+ src:")
# Files take seconds each to verify.
SAID_EVERY = 10


class Contents:
    """The part of a cluster that is about its files and blocks."""

    def blocks(self, node):
        """Finalized internal blocks of a DataNode: id, length and when it got its name."""
        found = {}
        for below, _, names in os.walk(os.path.join(self.folder, "data", str(node))):
            if f"{os.sep}finalized" not in below:
                continue
            for name in names:
                match = re.fullmatch(r"blk_(-\d+)", name)
                if match:
                    try:
                        stat = os.stat(os.path.join(below, name))
                    except FileNotFoundError:
                        continue
                    found[int(match[1])] = (stat.st_size, stat.st_ctime)
        return found

    def where(self, blocks, without=()):
        """Which of these blocks are somewhere, and since when."""
        found = {}
        for node in self.nodes:
            if node not in without:
                for block, (_, since) in self.blocks(node).items():
                    if block in blocks:
                        found[block] = max(since, found.get(block, 0))
        return found

    def builds(self, pattern):
        """How often DataNodes took each block since logs began, from whom the pattern says."""
        found = Counter()
        for node in self.nodes:
            if os.path.exists(self.processes.path(f"datanode-{node}")):
                log = self.processes.log(f"datanode-{node}")
                found.update(int(block) for block in pattern.findall(log))
        return found

    def unfinished(self, node):
        """Blocks that a DataNode has begun to take."""
        folders = glob.glob(os.path.join(self.folder, "data", str(node), "current", "BP-*", "tmp"))
        found = []
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                found += [name for name in os.listdir(folder) if name.startswith("blk_-")]
        return found

    @staticmethod
    def sha256(path):
        found = hashlib.sha256()
        with open(path, "rb") as data:
            while part := data.read(1 << 20):
                found.update(part)
        return found.hexdigest()

    # --- what must be so in the end

    def fsck(self):
        try:
            return self.tool("org.apache.hadoop.hdfs.tools.DFSck", "/ec")
        except Failed as error:
            return str(error)

    def is_healthy(self):
        text = self.fsck()
        numbers = re.findall(r"(?:Under|Unsatisfactory placement|Missing internal|Corrupt|Missing) "
                             r"(?:erasure-coded )?(?:block groups|blocks)(?: of EC)?:\s+(\d+)", text)
        under = re.search(r"Under-erasure-coded block groups:\s+(\d+)", text)
        numbers += [under[1]] if under else []
        return "is HEALTHY" in text and all(number == "0" for number in numbers)

    def verify(self, sums, say=lambda text: None):
        """What is wrong; nothing where all is well. Says how far it is from time to time."""
        wrong = []
        if not self.is_healthy():
            wrong.append("fsck: " + self.fsck())
        for done, name in enumerate(sums):
            if done and done % SAID_EVERY == 0:
                say(f"  {done} of {len(sums)} files verified")
            text = self.tool("org.apache.hadoop.hdfs.tools.DebugAdmin", "verifyEC", "-file",
                             "/ec/" + name)
            if "Status: OK" not in text and "All EC block group status: OK" not in text:
                wrong.append(f"verifyEC {name}: {text}")
        target = self._folder("read")
        self.tool("org.apache.hadoop.fs.FsShell", "-get", "-f",
                  *["/ec/" + name for name in sums], target)
        for name, expected in sums.items():
            if self.sha256(os.path.join(target, name)) != expected:
                wrong.append(f"{name} reads otherwise than it was written")
        shutil.rmtree(target)
        return wrong

    def duplicates(self):
        """Internal blocks that more than one DataNode has."""
        seen, twice = set(), set()
        for node in self.nodes:
            if not self.processes.is_running(f"datanode-{node}"):
                continue
            for block in self.blocks(node):
                (twice if block in seen else seen).add(block)
        return twice

    # --- the same state twice

    def snapshot(self, name):
        """Copies data and names, of stopped daemons; blocks never change, so they are linked."""
        for part in ("data", "name"):
            source = os.path.join(self.folder, part)
            shutil.copytree(source, os.path.join(self.folder, name, part),
                            copy_function=self._copy)

    def restore(self, name):
        """Data and names are as they were, nobody leaves, and no daemon has a past."""
        for part in ("data", "name"):
            shutil.rmtree(os.path.join(self.folder, part))
            shutil.copytree(os.path.join(self.folder, name, part),
                            os.path.join(self.folder, part), copy_function=self._copy)
        for part in ("coordinator", "agents"):
            shutil.rmtree(os.path.join(self.folder, part), ignore_errors=True)
        open(os.path.join(self.conf, "exclude"), "w").close()
        self.restored += 1
        os.rename(self.processes.logs, f"{self.processes.logs}-{self.restored}")
        os.makedirs(self.processes.logs)
        # What was written before would be in the way of each rebuilt block that is made durable.
        os.sync()

    @staticmethod
    def _copy(source, target):
        if f"{os.sep}finalized{os.sep}" in source:
            os.link(source, target)
        else:
            shutil.copy2(source, target)
