"""Processes that end with us, whatever ends us, and the links between them."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """Something that was to work did not; the text says what and where to look."""


class TooLate(Failed):
    """Something was not so in the time that it had; it may be so later."""


# What ends us, by a key or by a command.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def undisturbed():
    """What ends us waits until this is done: half of it would leave something behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def need(program, what):
    """Fails where a program is not there, and says what it is for."""
    if not shutil.which(program):
        raise Failed(f"{program} is not there: {what}")


def die_with_parent():
    """Even if we are killed outright, what we started ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Processes:
    """Everything that was started, each with a log of its own."""

    def __init__(self, logs):
        self.logs = logs
        self.running = {}

    def start(self, name, command, env=None):
        log = open(self.path(name), "ab")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env=env, start_new_session=True, preexec_fn=die_with_parent)
        log.close()
        self.running[name] = process
        return process

    def kill(self, name, sig=signal.SIGKILL):
        process = self.running.pop(name)
        if process.poll() is None:
            process.send_signal(sig)
            process.wait()
        self.clear_up_after(process)

    @staticmethod
    def clear_up_after(process):
        """Removes what a JVM that jcmd has spoken to leaves where it is not asked to end."""
        for name in (".java_pid", ".attach_pid"):
            with contextlib.suppress(OSError):
                os.unlink(f"/tmp/{name}{process.pid}")

    def signal(self, name, sig):
        """To one that goes on, such as to stand still."""
        self.running[name].send_signal(sig)

    def is_running(self, name):
        return name in self.running and self.running[name].poll() is None

    def check(self):
        for name, process in self.running.items():
            if process.poll() is not None:
                raise Failed(f"{name} has ended with {process.returncode}: {self.tail(name)}")

    def path(self, name):
        return os.path.join(self.logs, name + ".log")

    def tail(self, name, lines=5):
        return "\n".join(self.log(name).splitlines()[-lines:])

    def log(self, name):
        with open(self.path(name), errors="replace") as log:
            return log.read()

    def stop_all(self):
        with undisturbed():
            for process in self.running.values():
                if process.poll() is None:
                    process.kill()
            for process in self.running.values():
                process.wait()
                self.clear_up_after(process)
            self.running.clear()


def run(command, **also):
    """Runs a short command; its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, **also)
    if done.returncode != 0:
        text = done.stdout.decode(errors="replace").strip()
        raise Failed(f"{' '.join(map(str, command))}: {text}")
    return done.stdout.decode(errors="replace")


def wait_for(what, condition, seconds, processes=None, every=0.2):
    """Waits until something is so; gives what the condition gave."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        if processes:
            processes.check()
        time.sleep(every)
    raise TooLate(f"{what}: not within {seconds:.0f} s")


class Racks:
    """So many racks, in which DataNodes lie by turns."""

    def __init__(self, count=1, mbit=None):
        # `mbit`: what links of a rack to the others carry, each way; none: whatever nodes send.
        self.count, self.mbit = count, mbit

    def numbers(self):
        """Of racks that are told of: one that has all nodes need not be."""
        return range(1, self.count + 1) if self.count > 1 else range(0)

    def of(self, node):
        return (node - 1) % self.count + 1


class Loopback:
    """No links of our own, for the reason said: all are 127.0.0.1, and nothing is shaped."""

    is_shaped = False
    # One address has all DataNodes, so Hadoop is to go by their names: it asks a mapping that keeps
    # no answers for those, and one that does for addresses.
    mapping = "org.apache.hadoop.net.ScriptBasedMapping$RawScriptBasedMapping"

    def __init__(self, count, why, racks):
        self.count, self.why, self.racks = count, why, racks

    def address(self, node):
        return "127.0.0.1"

    def host(self, node):
        """What a DataNode calls itself: nobody looks it up."""
        return f"dn{node}" if self.racks.count > 1 else self.address(node)

    def port(self, base, node):
        return base + node

    def inside(self, node, command):
        return command

    def shape(self, mbit):
        pass

    def unshape(self):
        pass

    def close(self):
        pass


class Namespaces:
    """A network namespace for each DataNode, on a bridge of its rack; node 0 is this machine.

    The racks' bridges hang on one for all, each by a link of its own."""

    is_shaped = True
    mapping = "org.apache.hadoop.net.ScriptBasedMapping"
    BURST = "256kb"

    def __init__(self, count, racks):
        self.count, self.racks = count, racks
        self.tag = f"su{os.getpid() % 100000}"
        self.net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        # How to take away what there is; said before it is made, since deleting nothing is
        # harmless.
        self.made = []
        try:
            self._make()
            # Whether links may be shaped shows here, and not when files are written.
            self.shape(1000)
            self.unshape()
        except BaseException:
            self.close()
            raise

    def _make(self):
        core = self._bridge(self.tag + "b")
        run(["ip", "addr", "add", self.net + ".1/24", "dev", core])
        for rack in self.racks.numbers():
            bridge, (up, down) = self._bridge(self._rack_bridge(rack)), self._rack_ends(rack)
            self.made.append(["ip", "link", "del", up])
            run(["ip", "link", "add", up, "type", "veth", "peer", "name", down])
            run(["ip", "link", "set", up, "master", bridge, "up"])
            run(["ip", "link", "set", down, "master", core, "up"])
        for node in range(1, self.count + 1):
            bridge = self._rack_bridge(self.racks.of(node)) if self.racks.numbers() else core
            space, link = f"{self.tag}n{node}", f"{self.tag}v{node}"
            self.made.append(["ip", "netns", "del", space])
            run(["ip", "netns", "add", space])
            run(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space])
            run(["ip", "link", "set", link, "master", bridge, "up"])
            inside = ["ip", "netns", "exec", space]
            run(inside + ["ip", "link", "set", "lo", "up"])
            run(inside + ["ip", "addr", "add", self.address(node) + "/24", "dev", "eth0"])
            run(inside + ["ip", "link", "set", "eth0", "up"])
            # A namespace cannot choose its congestion control, a route can.
            subprocess.run(inside + ["ip", "route", "replace", self.net + ".0/24", "dev", "eth0",
                                     "src", self.address(node), "congctl", "cubic"],
                           stderr=subprocess.DEVNULL)

    def _bridge(self, name):
        self.made.append(["ip", "link", "del", name])
        run(["ip", "link", "add", name, "type", "bridge"])
        run(["ip", "link", "set", name, "up"])
        return name

    def _rack_bridge(self, rack):
        return f"{self.tag}r{rack}"

    def _rack_ends(self, rack):
        """Of a rack's link: what it sends leaves by the first, and what it gets by the second."""
        return f"{self.tag}u{rack}", f"{self.tag}d{rack}"

    def address(self, node):
        return f"{self.net}.{1 if node == 0 else node + 10}"

    def host(self, node):
        return self.address(node)

    def port(self, base, node):
        return base

    def inside(self, node, command):
        return command if node == 0 else ["ip", "netns", "exec", f"{self.tag}n{node}"] + command

    def shape(self, mbit):
        for node in range(1, self.count + 1):
            run(self._shaped(f"{self.tag}v{node}", mbit))
            run(self.inside(node, self._shaped("eth0", mbit)))
        for end in self._shaped_ends():
            run(self._shaped(end, self.racks.mbit))

    def _shaped(self, link, mbit):
        return ["tc", "qdisc", "replace", "dev", link, "root", "tbf", "rate", f"{mbit}mbit",
                "burst", self.BURST, "latency", "400ms"]

    def _shaped_ends(self):
        """Both of each rack's link, where those carry less than nodes may send."""
        racks = self.racks.numbers() if self.racks.mbit else ()
        return [end for rack in racks for end in self._rack_ends(rack)]

    def unshape(self):
        def unshaped(link):
            return ["tc", "qdisc", "del", "dev", link, "root"]

        commands = [unshaped(end) for end in self._shaped_ends()]
        for node in range(1, self.count + 1):
            commands += [unshaped(f"{self.tag}v{node}"), self.inside(node, unshaped("eth0"))]
        for command in commands:
            subprocess.run(command, stderr=subprocess.DEVNULL)

    def close(self):
        with undisturbed():
            while self.made:
                subprocess.run(self.made.pop(), stderr=subprocess.DEVNULL)


def network(count, may_shape=True, racks=None):
    """Links of our own where we may make them."""
    racks = racks or Racks()
    if not may_shape:
        return Loopback(count, "as was asked", racks)
    if os.geteuid() != 0:
        return Loopback(count, "that needs root", racks)
    if not shutil.which("ip") or not shutil.which("tc"):
        return Loopback(count, "that needs the programs ip and tc", racks)
    try:
        return Namespaces(count, racks)
    except Failed as error:
        # Root of a container, as a rule.
        return Loopback(count, f"they may not be made here: {error}", racks)
