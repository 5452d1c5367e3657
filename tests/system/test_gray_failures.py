"""Nodes that stop responding and regions that are cut off, with the settings of `isthmus up`.

The producers have the timeouts of docs/failures.md. On a busy machine a paused leader cost librdkafka 1.5 to 3.0 s and Java 2.0 to 2.1 s,
a cut 2.5 to 4.9 s: one or two timeouts. The bounds leave room for one timeout more; the benches assert the goals of 3 and 6 s.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from isthmus_client.admin.topics import NewTopic

from tests.java_stream import JAVA_TWO_SECONDS, JavaStream
from tests.stream import TWO_SECONDS, Stream
from tests.system.quorums import quorum
from tests.system.stalls import LAN, ONE_REGION
from tests.system.stretched import Led, Stretched, running

PAUSED_SECONDS: Final = 6.0
CUT_SECONDS: Final = 8.0
STALL_SECONDS: Final = 3.0
"""Twice the session timeout."""
CLIENTS: Final = ("librdkafka", "java")
ALL: Final = frozenset({1, 2, 3})
ONE_CONTROLLER: Final = """
regions = ["lan"]
[[clusters]]
name = "c"
nodes = [{ region = "lan", brokers = 2, controllers = 1 }]
"""
THREE_REGIONS: Final = """
regions = ["west", "east", "south"]
links = [
  { between = ["west", "east"], latency_ms = 8 },
  { between = ["west", "south"], latency_ms = 38 },
  { between = ["east", "south"], latency_ms = 45 },
]
[[clusters]]
name = "c"
config = { "min.insync.replicas" = 2 }
nodes = [
  { region = "west", brokers = 2, voters = 1 },
  { region = "east", brokers = 2, voters = 1 },
  { region = "south", brokers = 1, voters = 1 },
]
"""


@pytest.fixture(scope="module")
def lan(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretched]:
    with running(tmp_path_factory.mktemp(LAN), ONE_REGION) as made:
        yield made


@contextmanager
def producing(cluster: Stretched, region: str, topic: str, client: str) -> Iterator[Stream | JavaStream]:
    bootstrap = cluster.bootstrap(region)
    if client == "java":
        producer: Stream | JavaStream = JavaStream(bootstrap, topic, **JAVA_TWO_SECONDS)
    else:
        producer = Stream(bootstrap, topic, **TWO_SECONDS)
    with producer as stream:
        stream.seconds_until_next()
        yield stream


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_controller", [False, True], ids=["broker", "controller"])
def test_a_paused_leader_is_replaced(lan: Stretched, is_controller: bool, client: str) -> None:
    """Also when it is the active controller: the others elect a new one first."""
    controller = quorum(lan.bootstrap("lan")).leader_id
    leader = controller if is_controller else min(ALL - {controller})
    topic = f"paused-{'controller' if is_controller else 'broker'}-{client}"
    lan.make("lan", NewTopic(topic, assignments={0: (leader, *sorted(ALL - {leader}))}))
    lan.await_led("lan", {topic: Led(leader, ALL)})
    with producing(lan, "lan", topic, client) as stream:
        seconds = stream.seconds_until_next(partial(lan.signal, signal.SIGSTOP, lan.names[leader]))
        lan.signal(signal.SIGCONT, lan.names[leader])
    assert seconds < PAUSED_SECONDS
    lan.await_led("lan", {topic: [Led(other, ALL) for other in ALL - {leader}]})


@pytest.mark.parametrize("client", CLIENTS)
def test_a_paused_follower_does_not_block_acknowledgements(lan: Stretched, client: str) -> None:
    topic = f"follower-{client}"
    lan.make("lan", NewTopic(topic, assignments={0: (1, 2, 3)}))
    lan.await_led("lan", {topic: Led(1, ALL)})
    with producing(lan, "lan", topic, client) as stream:
        seconds = stream.seconds_until_next(partial(lan.signal, signal.SIGSTOP, lan.names[2]))
        lan.signal(signal.SIGCONT, lan.names[2])
    assert seconds < PAUSED_SECONDS
    lan.await_brokers("lan", fenced=())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_region_that_is_cut_off_is_replaced(tmp_path: Path, client: str) -> None:
    with running(tmp_path, THREE_REGIONS) as cluster:
        assignment = (cluster.ids["west-1"], cluster.ids["west-2"], cluster.ids["east-1"], cluster.ids["south-1"])
        cluster.make("east", NewTopic("t", assignments={0: assignment}))
        cluster.await_led("east", {"t": Led(assignment[0], frozenset(assignment))})

        def cut() -> None:
            for other in ("east", "south"):
                cluster.cut("west", other)

        with producing(cluster, "east", "t", client) as stream:
            assert stream.seconds_until_next(cut) < CUT_SECONDS
        cluster.await_brokers("east", fenced={cluster.ids["west-1"], cluster.ids["west-2"]})
        # The controller that is cut off tries to fence the others, which no majority of the quorum commits.
        others = ("east-1", "east-2", "south-1")
        for node in others:
            assert not any(f"fencing broker {cluster.ids[node]}" in cluster.log(other) for other in others)


def test_a_controller_that_was_stalled_fences_no_broker(tmp_path: Path) -> None:
    """Heartbeats that arrive while it does not run wait in its sockets, and the timers of all sessions run out."""
    with running(tmp_path, ONE_CONTROLLER) as cluster:
        controller = next(node.name for node in cluster.site.plan.nodes if not node.is_broker)
        cluster.signal(signal.SIGSTOP, controller)
        time.sleep(STALL_SECONDS)
        cluster.signal(signal.SIGCONT, controller)
        cluster.make("lan", NewTopic("after", 1, 2))
        assert "this controller was stalled for" in cluster.log(controller)
        assert "fencing broker" not in cluster.log(controller)
