"""The faults of a stretched cluster. Each strikes one node, takes effect, and is undone.

Clients are in the region HOME, which is never cut off: they would be cut off with it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from isthmus_topology.processes import stop

from tests.system.fault_load import Load
from tests.system.quorums import quorum
from tests.system.stretched import Stretched

REGIONS: Final = ("west", "east", "south")
HOME: Final = "south"
SESSION_SECONDS: Final = 3
TOPOLOGY: Final = f"""
regions = ["west", "east", "south"]
links = [
  {{ between = ["west", "east"], latency_ms = 2 }},
  {{ between = ["west", "south"], latency_ms = 2 }},
  {{ between = ["east", "south"], latency_ms = 2 }},
]

[[clusters]]
name = "c"
nodes = [
  {{ region = "west", brokers = 1, voters = 1 }},
  {{ region = "east", brokers = 1, voters = 1 }},
  {{ region = "south", brokers = 1, voters = 1 }},
]

[clusters.config]
"auto.create.topics.enable" = false
"min.insync.replicas" = 2
"replica.lag.time.max.ms" = 1500
"broker.session.timeout.ms" = {SESSION_SECONDS * 1000}
"broker.heartbeat.interval.ms" = 300
"group.initial.rebalance.delay.ms" = 0
"log.cleaner.backoff.ms" = 500
"""
_CLOCKS: Final = Path(__file__).parent / "stepped_clock"
_STEP_MS: Final = 45 * 60_000
_VOLUME_MB: Final = 512


class Fault(ABC):
    """One kind of fault."""

    def victim(self, load: Load) -> str:
        """The node to strike."""
        return load.leader()

    @abstractmethod
    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        """Cause it."""

    def await_effect(self, load: Load, node: str) -> None:  # noqa: B027 - most faults take effect at once
        """Until the cluster has noticed."""

    @abstractmethod
    def undo(self, cluster: Stretched, node: str) -> None:
        """Repair the node or its network."""


class Kill(Fault):
    """SIGKILL of a leader."""

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        cluster.kill(node)

    def undo(self, cluster: Stretched, node: str) -> None:
        cluster.start()


class KillController(Kill):
    """SIGKILL of the active controller."""

    def victim(self, load: Load) -> str:
        return load.cluster.names[quorum(load.cluster.bootstrap(load.home)).leader_id]


class Stop(Fault):
    """SIGSTOP of a leader for longer than its session: it wakes up as a zombie."""

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        cluster.signal(signal.SIGSTOP, node)

    def await_effect(self, load: Load, node: str) -> None:
        others = next(region for region in REGIONS if not node.startswith(region))
        load.cluster.await_brokers(others, fenced={load.cluster.ids[node]})

    def undo(self, cluster: Stretched, node: str) -> None:
        cluster.signal(signal.SIGCONT, node)


class CutOff(Fault):
    """A fault of the network around a region other than HOME."""

    def victim(self, load: Load) -> str:
        leader = load.leader()
        return leader if not leader.startswith(HOME) else "west-1"

    def undo(self, cluster: Stretched, node: str) -> None:
        cluster.heal()


class Cut(CutOff):
    """Two regions are cut off from each other. One of them has leaders."""

    def __init__(self, *, one_way: bool, reset: bool) -> None:
        self._one_way = one_way
        self._reset = reset

    def victim(self, load: Load) -> str:
        """A node that leads: between two followers a cut changes nothing."""
        victim = super().victim(load)
        if load.leader() != victim:
            load.give_leadership_to(victim)
        return victim

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        near = cluster.site.find(node).region
        far = next(region for region in REGIONS if region not in (near, HOME))
        cluster.cut(near, far, one_way=self._one_way, reset=self._reset)

    def await_effect(self, load: Load, node: str) -> None:
        load.await_shrunk(load.home)


class Isolate(CutOff):
    """A region is cut off from all others."""

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        near = cluster.site.find(node).region
        for region in REGIONS:
            if region != near:
                cluster.cut(near, region)

    def await_effect(self, load: Load, node: str) -> None:
        load.cluster.await_brokers(load.home, fenced={load.cluster.ids[node]})


class Restart(Kill):
    """A controlled shutdown of a leader."""

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        stop(cluster.site, [node])
        assert cluster.site.state_of(node) == "dead"


class FullDisk(Kill):
    """The disk of a leader is full: the node stops, and recovers once there is space. On a mounted volume it is really full; elsewhere a
    limit on file sizes has the same effect."""

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        directory = cluster.site.directory / node
        if directory.is_mount():
            _fill(directory / "filler")
        else:
            resource.prlimit(cluster.site.processes[node].pid, resource.RLIMIT_FSIZE, (0, 0))

    def await_effect(self, load: Load, node: str) -> None:
        load.cluster.await_dead(node)

    def undo(self, cluster: Stretched, node: str) -> None:
        (cluster.site.directory / node / "filler").unlink(missing_ok=True)
        cluster.kill(node)
        super().undo(cluster, node)


class StepClock(Fault):
    """The wall clock of a leader is set, forward or back. From an hour on it would have to refuse its clients' timestamps."""

    def strike(self, cluster: Stretched, node: str, random: Random) -> None:
        _clock_of(cluster, node).write_text(str(random.choice((-_STEP_MS, _STEP_MS, random.randint(-5_000, 5_000)))))

    def undo(self, cluster: Stretched, node: str) -> None:
        _clock_of(cluster, node).unlink(missing_ok=True)


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": Kill(),
    "kill-controller": KillController(),
    "stop": Stop(),
    "cut": Cut(one_way=False, reset=False),
    "cut-reset": Cut(one_way=False, reset=True),
    "cut-one-way": Cut(one_way=True, reset=False),
    "cut-one-way-reset": Cut(one_way=True, reset=True),
    "isolate": Isolate(),
    "restart": Restart(),
    "full-disk": FullDisk(),
    "clock": StepClock(),
}
COMBINED: Final[Sequence[str]] = ("kill", "stop", "cut", "cut-one-way", "isolate", "full-disk", "clock")


def one_round(load: Load, fault: Fault, random: Random) -> None:
    """Strike the cluster and repair it. It works all the time; afterwards the replicas are the same, and the node that was struck leads."""
    victim = fault.victim(load)
    fault.strike(load.cluster, victim, random)
    try:
        fault.await_effect(load, victim)
        load.go_on()
    finally:
        fault.undo(load.cluster, victim)
    recover(load, victim)


def recover(load: Load, victim: str) -> None:
    """Wait until all replicas are in sync, compare them, and let the node that was struck lead."""
    load.await_whole()
    load.compare_replicas()
    load.give_leadership_to(victim)
    load.go_on()


def combined_round(load: Load, random: Random, seconds: float) -> None:
    """Several faults at once, of any nodes: the cluster need not work until they are undone."""
    nodes = sorted(load.cluster.ids)
    struck: list[tuple[Fault, str]] = []
    try:
        for name in random.sample(COMBINED, random.randint(2, 4)):
            fault = FAULTS[name]
            node = random.choice([node for node in nodes if not (isinstance(fault, CutOff) and node.startswith(HOME))])
            if load.cluster.site.state_of(node) == "dead":
                continue
            struck.append((fault, node))
            fault.strike(load.cluster, node, random)
            time.sleep(seconds * random.random())
    finally:
        # A node starts once the others work, and all of them have space.
        for fault, node in sorted(struck, key=lambda one: (isinstance(one[0], Kill), not isinstance(one[0], FullDisk))):
            fault.undo(load.cluster, node)
    load.cluster.await_brokers(HOME, fenced=())
    recover(load, struck[0][1])


def _clock_of(cluster: Stretched, node: str) -> Path:
    return cluster.site.directory / node / "clock-step"


def _fill(path: Path) -> None:
    """Create a file that uses all free space, to the last byte."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


@contextmanager
def stepped_clocks() -> Iterator[None]:
    """Nodes that start during the block have clocks that StepClock can set."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_CLOCKS), before)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextmanager
def volume(at: Path) -> Iterator[None]:
    """A separate file system in memory, for a disk that is really full; only root can mount it."""
    at.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_VOLUME_MB}m", "tmpfs", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)
