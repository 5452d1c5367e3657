"""Nodes of one region, with the settings of `isthmus up`, that stop for a moment and continue."""

import signal
import time
from random import Random
from typing import Final

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


def stall(cluster: Stretched, random: Random) -> None:
    """Stop one of the nodes briefly, which no controller may take for a failure, and let a random time pass."""
    node = random.choice(sorted(cluster.ids))
    cluster.signal(signal.SIGSTOP, node)
    time.sleep(STALL_SECONDS)
    cluster.signal(signal.SIGCONT, node)
    time.sleep(BETWEEN_SECONDS * random.random())


def assert_none_was_fenced(cluster: Stretched) -> None:
    """No controller has fenced a broker since the nodes started."""
    fencings = [line for node in cluster.ids for line in cluster.log(node).splitlines() if _FENCING in line]
    assert not fencings, fencings
