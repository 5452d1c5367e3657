"""Paused nodes and regions that are cut off, with the settings of `isthmus up`: how long a producer gets no acknowledgements.

The producer times out after two seconds, and a request in flight to a paused broker waits for that; see docs/failures.md.
"""

from importlib.resources import files
from typing import Final

import pytest
from isthmus_client.admin.topics import NewTopic
from isthmus_client.metadata import TopicPartition
from isthmus_topology.description import read_topology

from tests.sim.cluster.deployment import Deployment

PAUSED_SECONDS: Final = 3.0
CUT_SECONDS: Final = 6.0
GIVE_UP_SECONDS: Final = 60.0
STALL_SECONDS: Final = 0.3
STALLED_LIFE_SECONDS: Final = 300.0
ONE_REGION: Final = """
regions = ["lan"]
[[clusters]]
name = "c"
config = { "min.insync.replicas" = 2 }
[[clusters.nodes]]
region = "lan"
brokers = 3
voters = 3
"""
PLATFORM: Final = (files("isthmus_topology") / "built_in" / "platform.toml").read_text()
TOPIC: Final = NewTopic("t", 3, 3)


def orders() -> NewTopic:
    """The topic of the built-in platform with two sync replicas in eu-west and one in eu-north."""
    return next(
        NewTopic("orders", 1, -1, configs=topic.config)
        for topic in read_topology(PLATFORM).clusters[0].topics
        if topic.name == "orders"
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("is_controller", [False, True], ids=["broker", "controller"])
def test_a_paused_leader_is_replaced_before_a_producer_times_out(seed: int, is_controller: bool) -> None:
    cluster = Deployment(seed, ONE_REGION, "lan")
    with cluster.running(TOPIC):
        controller = cluster.quorum_leader()
        leaders = [record.leader for record in cluster.partitions("t")]
        partition = next(index for index, leader in enumerate(leaders) if (leader == controller) is is_controller)
        produce_for_a_while(cluster, TopicPartition("t", partition))
        assert cluster.seconds_without(lambda: cluster.stop(leaders[partition]), GIVE_UP_SECONDS) < PAUSED_SECONDS
        cluster.resume(leaders[partition])
        cluster.await_true(lambda: len(cluster.partitions("t")[partition].isr) == 3)


@pytest.mark.parametrize("seed", range(6))
def test_a_paused_follower_does_not_block_acknowledgements(seed: int) -> None:
    cluster = Deployment(seed, ONE_REGION, "lan")
    with cluster.running(TOPIC):
        produce_for_a_while(cluster, TopicPartition("t", 0))
        follower = cluster.partitions("t")[0].isr[1 + seed % 2]
        assert cluster.seconds_without(lambda: cluster.stop(follower), GIVE_UP_SECONDS) < PAUSED_SECONDS


@pytest.mark.parametrize("seed", range(12))
def test_a_region_that_is_cut_off_is_replaced(seed: int) -> None:
    """The leader and another sync replica are cut off; the third takes over and promotes the observer."""
    cluster = Deployment(seed, PLATFORM, "eu-north")
    with cluster.running(orders()):
        produce_for_a_while(cluster, TopicPartition("orders", 0))
        fenced = {node.node_id for node in cluster.nodes if node.region == "eu-west"}
        assert cluster.partitions("orders")[0].leader in fenced
        assert cluster.seconds_without(lambda: cluster.isolate("eu-west"), GIVE_UP_SECONDS) < CUT_SECONDS
        cluster.run(10.0)
        assert set(cluster.fenced()) == fenced, "a broker outside of the region was fenced"


def test_nodes_that_stall_for_300_ms_are_not_fenced() -> None:
    """No broker leaves an ISR, and no leader changes."""
    cluster = Deployment(1, ONE_REGION, "lan")
    with cluster.running(TOPIC):
        produce_for_a_while(cluster, TopicPartition("t", 0))
        before = cluster.partitions("t")
        end = cluster.loop.time() + STALLED_LIFE_SECONDS
        while cluster.loop.time() < end:
            cluster.run(2.0 * cluster.random.random())
            node = cluster.random.choice(cluster.nodes).node_id
            cluster.stop(node)
            cluster.run(STALL_SECONDS)
            cluster.resume(node)
        assert cluster.partitions("t") == before
        assert cluster.fenced() == []


def produce_for_a_while(cluster: Deployment, partition: TopicPartition) -> None:
    """Produce, so that a fault happens at a random moment of all intervals."""
    cluster.produce(partition)
    cluster.run(1.0 + 2.0 * cluster.random.random())
