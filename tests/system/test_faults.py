"""A cluster over three regions under load while its parts fail: no acknowledged record is lost, doubled or reordered, and it keeps working.

`ISTHMUS_FAULT_ROUNDS` repeats each fault.
"""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from isthmus_client.admin.topics import NewTopic
from isthmus_client.admin.topics import describe as describe_topics
from isthmus_client.metadata import Topic
from isthmus_topology.processes import stop

from tests.system.ledger import PARTITIONS, Ledger
from tests.system.quorums import quorum, wait_for
from tests.system.stretched import Follower, Stretched, running

ROUNDS: Final = int(os.environ.get("ISTHMUS_FAULT_ROUNDS", "1"))
RECORDS_A_ROUND: Final = 200
PRODUCERS: Final = 2
REPLICAS: Final = frozenset({1, 2, 3})
REGIONS: Final = ("west", "east", "south")
HOME: Final = "south"
"""Where the clients are; it is never cut off, as they would be cut off with it."""
AWAY: Final = ("west", "east")
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
"min.insync.replicas" = 2
"replica.lag.time.max.ms" = 1500
"broker.session.timeout.ms" = {SESSION_SECONDS * 1000}
"broker.heartbeat.interval.ms" = 300
"group.initial.rebalance.delay.ms" = 0
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretched]:
    with running(tmp_path_factory.mktemp("faults"), TOPOLOGY) as made:
        yield made


@pytest.fixture
def cluster(site: Stretched) -> Iterator[Stretched]:
    """Everything runs; topics of a test do not outlive it."""
    yield site
    site.restore("west")


class Load:
    """Producers with a topic each, and a reader that follows them."""

    def __init__(self, cluster: Stretched) -> None:
        self.cluster = cluster
        self.topics = [f"ledger-{number}" for number in range(PRODUCERS)]
        cluster.make("west", *(NewTopic(topic, PARTITIONS, 3) for topic in self.topics))
        home = cluster.bootstrap(HOME)
        self.ledgers = [Ledger(home, topic) for topic in self.topics]
        self.follower = Follower(home, self.topics, PARTITIONS)

    def go_on(self) -> None:
        """Until every producer has had so many more records acknowledged."""
        for ledger in self.ledgers:
            ledger.wait_for(ledger.total() + RECORDS_A_ROUND)

    def await_shrunk(self, region: str) -> None:
        """Until some replica is out of sync."""
        wait_for(
            self.cluster.bootstrap(region),
            lambda client: describe_topics(client, self.topics),
            lambda found: any(set(p.in_sync) < REPLICAS for topic in found.values() for p in topic.partitions.values()),
        )

    def await_whole(self) -> None:
        """Until every replica is in sync, as every region has it."""

        def done(found: dict[str, Topic]) -> bool:
            return all(set(p.in_sync) == REPLICAS for topic in found.values() for p in topic.partitions.values())

        for region in REGIONS:
            wait_for(self.cluster.bootstrap(region), lambda client: describe_topics(client, self.topics), done)

    def leader(self) -> str:
        """The node that leads the first partition."""
        found = wait_for(
            self.cluster.bootstrap("west"),
            lambda client: describe_topics(client, self.topics[:1]),
            lambda told: told[self.topics[0]].partitions[0].leader >= 0,
        )
        return self.cluster.names[found[self.topics[0]].partitions[0].leader]


@contextmanager
def load(cluster: Stretched) -> Iterator[Load]:
    """Producers and a reader during the block, and the reckoning after it."""
    made = Load(cluster)
    try:
        made.go_on()
        yield made
        made.go_on()
        made.await_whole()
        for ledger in made.ledgers:
            ledger.finish()
            ledger.check()
        made.follower.check(made.ledgers)
    finally:
        for ledger in made.ledgers:
            ledger.stop()
        made.follower.close()


def test_leaders_are_killed(cluster: Stretched) -> None:
    with load(cluster) as running_load:
        for _ in range(ROUNDS):
            cluster.kill(running_load.leader())
            running_load.go_on()
            cluster.start()
            running_load.await_whole()


def test_the_active_controller_is_killed(cluster: Stretched) -> None:
    with load(cluster) as running_load:
        for _ in range(ROUNDS):
            cluster.kill(cluster.names[quorum(cluster.bootstrap("west")).leader_id])
            running_load.go_on()
            cluster.start()
            running_load.await_whole()


def test_a_leader_stands_still_for_longer_than_its_session_and_wakes_up_as_a_zombie(cluster: Stretched) -> None:
    with load(cluster) as running_load:
        for _ in range(ROUNDS):
            zombie = running_load.leader()
            others = next(region for region in REGIONS if not zombie.startswith(region))
            cluster.signal(signal.SIGSTOP, zombie)
            try:
                cluster.await_brokers(others, fenced={cluster.ids[zombie]})
                running_load.go_on()
            finally:
                cluster.signal(signal.SIGCONT, zombie)
            running_load.await_whole()


@pytest.mark.parametrize("reset", [False, True], ids=["silent", "reset"])
@pytest.mark.parametrize("one_way", [False, True], ids=["both-ways", "one-way"])
def test_two_regions_are_cut_off_from_each_other(cluster: Stretched, one_way: bool, reset: bool) -> None:
    with load(cluster) as running_load:
        for turn in range(ROUNDS):
            near, far = AWAY[turn % 2], AWAY[(turn + 1) % 2]
            cluster.cut(near, far, one_way=one_way, reset=reset)
            running_load.await_shrunk(HOME)
            running_load.go_on()
            cluster.heal()
            running_load.await_whole()


def test_a_region_is_cut_off_from_all_others(cluster: Stretched) -> None:
    with load(cluster) as running_load:
        for turn in range(ROUNDS):
            alone, other = AWAY[turn % 2], AWAY[(turn + 1) % 2]
            cluster.cut(alone, other)
            cluster.cut(alone, HOME)
            cluster.await_brokers(HOME, fenced={cluster.ids[f"{alone}-1"]})
            running_load.go_on()
            cluster.heal()
            running_load.await_whole()


def test_all_nodes_are_restarted_one_after_another(cluster: Stretched) -> None:
    with load(cluster) as running_load:
        for _ in range(ROUNDS):
            for region in REGIONS:
                stop(cluster.site, [f"{region}-1"])
                assert cluster.site.state_of(f"{region}-1") == "dead"
                running_load.go_on()
                cluster.start()
                running_load.await_whole()


def test_the_disk_of_a_replica_is_full(cluster: Stretched) -> None:
    """A limit on file sizes simulates a full disk: the node with that disk stops, and recovers when there is space."""
    with load(cluster) as running_load:
        for _ in range(ROUNDS):
            full = running_load.leader()
            resource.prlimit(cluster.site.processes[full].pid, resource.RLIMIT_FSIZE, (0, 0))
            cluster.await_dead(full)
            running_load.go_on()
            cluster.start()
            running_load.await_whole()
