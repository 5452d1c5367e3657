"""Nodes of one region, with the settings of `isthmus up`, that stop for a moment and continue."""

import subprocess
import time
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from tests.system.stretched import Stretched

LAN: Final = "lan"
ONE_REGION: Final = f"""
regions = ["{LAN}"]
[[clusters]]
name = "c"
config = {{ "min.insync.replicas" = 2 }}
nodes = [{{ region = "{LAN}", brokers = 3, voters = 3 }}]
"""
STALL_SECONDS: Final = 0.3
BETWEEN_SECONDS: Final = 2.0
_FENCING: Final = "fencing broker"
_LAST: Final = 5


_SCRIPT: Final = "date +%s%N; kill -STOP $1; sleep $2; kill -CONT $1; date +%s%N"
_NANOSECONDS: Final = 1e9


class Stall(NamedTuple):
    """One node stopped for a moment."""

    node: str
    ended_at: float
    """Wall time."""
    seconds: float


def stall(cluster: Stretched, random: Random) -> Stall:
    """Stop one of the nodes briefly, which no controller may take for a failure, and let a random time pass.

    A shell does it: a thread of this process may have to wait for the interpreter, and the node with it.
    """
    node = random.choice(sorted(cluster.ids))
    pid = cluster.site.processes[node].pid
    command = ["sh", "-c", _SCRIPT, "sh", str(pid), str(STALL_SECONDS)]
    times = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    began, ended = (int(each) / _NANOSECONDS for each in times)
    time.sleep(BETWEEN_SECONDS * random.random())
    return Stall(node, ended, ended - began)


def assert_none_was_fenced(cluster: Stretched, stalls: Sequence[Stall]) -> None:
    """No controller has fenced a broker since the nodes started; the last stalls are what may have caused it."""
    fencings = [line for node in cluster.ids for line in cluster.log(node).splitlines() if _FENCING in line]
    longest = max((one.seconds for one in stalls), default=0.0)
    assert not fencings, f"{fencings} after {stalls[-_LAST:]}; the longest stall took {longest:.2f} s"
