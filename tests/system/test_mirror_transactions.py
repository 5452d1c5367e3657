"""Mirrors that write in transactions, both ways under the same names: clusters of both kinds, and every process is killed in turn."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from isthmus_client.metadata import TopicPartition
from isthmus_model.mirror_maker import parse_offset_sync

from bench.mirror_maker import MirrorMaker
from bench.mirror_maker import fetch as fetch_mirror_maker
from tests.exchange import (
    committed_values,
    differences_of,
    is_level,
    of_region,
    problems_of,
    split_transactions,
    transactions_of,
)
from tests.kafka import KafkaNode, fetch, running_kafka
from tests.node import Node, running_node
from tests.system.ledger import Ledger, wait_until
from tests.system.linker import extents
from tests.system.mirrors import MirrorProcess, records_of, running_mirror
from tests.system.test_linker import make
from tests.system.test_mirror import await_topic
from tests.system.transactional_load import RegionLoad, is_stable, of_each

TOPIC: Final = "orders"
PARTITIONS: Final = [TopicPartition(TOPIC, index) for index in range(2)]
BOTH_WAYS: Final = {
    "west->east.enabled": "true",
    "east->west.enabled": "true",
    "topics": TOPIC,
    "replication.policy.class": "IdentityReplicationPolicy",
    "exactly.once.source.support": "enabled",
    "refresh.topics.interval.seconds": "1",
}
CLUSTER_IDS: Final = {"west": "d2VzdC1vZi1tYW55LXdlcw", "east": "ZWFzdC1vZi1tYW55LWVhcw"}

AnyNode = Node | KafkaNode


def node_of(kind: str, region: str, directory: Path) -> AnyNode:
    if kind == "isthmus":
        return Node(directory / region)
    node = KafkaNode(directory / region)
    node.cluster_id = CLUSTER_IDS[region]
    return node


@pytest.fixture(params=["isthmus-isthmus", "kafka-isthmus", "isthmus-kafka", "kafka-kafka"])
def regions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, AnyNode]]:
    """West and east, of either kind."""
    fetch()
    with ExitStack() as stack:
        nodes: dict[str, AnyNode] = {}
        for region, kind in zip(("west", "east"), request.param.split("-"), strict=True):
            nodes[region] = node_of(kind, region, tmp_path)
            stack.callback(nodes[region].stop)
            nodes[region].start()
        yield nodes


def test_every_record_is_once_on_both_sides(tmp_path: Path, regions: dict[str, AnyNode]) -> None:
    """In the order of its own region, and no transaction was split."""
    clusters = {region: node.bootstrap for region, node in regions.items()}
    for bootstrap in clusters.values():
        make(bootstrap, TOPIC, len(PARTITIONS))
    with (
        running_mirror(tmp_path / "one", clusters, BOTH_WAYS) as one,
        running_mirror(tmp_path / "two", clusters, BOTH_WAYS) as two,
    ):
        loads = {region: RegionLoad(bootstrap, region, TOPIC, 2) for region, bootstrap in clusters.items()}
        for process in (None, one, regions["east"], two, regions["west"]):
            if process is not None:
                restart(process)
            await_progress(loads, clusters)
        for load in loads.values():
            load.finish()
        await_equal(clusters)
    assert_once(clusters)


def restart(process: MirrorProcess | AnyNode) -> None:
    process.kill()
    process.start()


def await_progress(loads: dict[str, RegionLoad], clusters: dict[str, str]) -> None:
    """More transactions of each region are in the other."""
    wanted = {region: load.committed + 20 for region, load in loads.items()}
    wait_until(lambda: all(load.committed >= wanted[region] for region, load in loads.items()), "transactions")
    before = counts(clusters)

    def has_grown() -> bool:
        return all(now > then for now, then in zip(counts(clusters), before, strict=True))

    wait_until(has_grown, "records in the other region")


def values_in(clusters: dict[str, str]) -> dict[str, list[list[bytes]]]:
    return {region: of_each(bootstrap, PARTITIONS, committed_values) for region, bootstrap in clusters.items()}


def counts(clusters: dict[str, str]) -> list[int]:
    """The records of each region in each region, by partition."""
    values = values_in(clusters)
    assert problems_of(values) == []
    return [len(of_region(there, region)) for region in clusters for here in values.values() for there in here]


def await_equal(clusters: dict[str, str]) -> None:
    def is_equal() -> bool:
        is_complete = all(is_stable(bootstrap, PARTITIONS) for bootstrap in clusters.values())
        return is_complete and is_level(values_in(clusters))

    wait_until(is_equal, "the same records on both sides")


def assert_once(clusters: dict[str, str]) -> None:
    values = values_in(clusters)
    assert problems_of(values) + differences_of(values, clusters.keys()) == []
    for bootstrap in clusters.values():
        for copied_in in of_each(bootstrap, PARTITIONS, transactions_of):
            assert split_transactions(copied_in) == []


def test_a_copy_that_mirror_maker_made_is_taken_over(tmp_path: Path) -> None:
    """MirrorMaker is killed under load; the mirror continues at the first record that is missing, once."""
    fetch_mirror_maker()
    with running_kafka(tmp_path / "west") as west, running_node(tmp_path / "east") as east:
        make(west.bootstrap, TOPIC, 4)
        maker = MirrorMaker(tmp_path / "maker", west.bootstrap, east.bootstrap, "west", TOPIC)
        load = Ledger(west.bootstrap, TOPIC, pause_seconds=0.005)
        copies = {TopicPartition(TOPIC, index): TopicPartition(f"west.{TOPIC}", index) for index in range(4)}
        try:
            maker.start()
            await_topic(east.bootstrap, f"west.{TOPIC}")
            wait_until(lambda: all(end > 300 for _, end in extents(east.bootstrap, list(copies.values()))), "copies")
            # MirrorMaker writes them later than the records; without one, a mirror cannot know where a copy ends.
            wait_until(lambda: synced_partitions(west.bootstrap) == set(range(4)), "an offset sync of each partition")
        finally:
            maker.kill()
        clusters = {"west": west.bootstrap, "target": east.bootstrap}
        settings = {
            "west->target.enabled": "true",
            "topics": TOPIC,
            "exactly.once.source.support": "enabled",
            "refresh.topics.interval.seconds": "1",
        }
        with running_mirror(tmp_path / "mirror", clusters, settings) as mirror:
            load.wait_for(load.total() + 500)
            restart(mirror)
            load.wait_for(load.total() + 500)
            load.finish()

            def differences() -> list[str]:
                theirs, ours = (
                    of_each(node.bootstrap, partitions, committed_values)
                    for node, partitions in ((west, list(copies)), (east, list(copies.values())))
                )
                return [difference(*both) for both in zip(theirs, ours, strict=True) if both[0] != both[1]]

            wait_until(lambda: not differences(), "the same records, each once and in order", differences)


def synced_partitions(bootstrap: str) -> set[int]:
    """The partitions with an offset sync of MirrorMaker."""
    (records,) = of_each(bootstrap, [TopicPartition("mm2-offset-syncs.target.internal", 0)], records_of)
    syncs = (parse_offset_sync(record.key, record.value) for record in records)
    return {sync.partition for sync in syncs if sync is not None and sync.topic == TOPIC}


def difference(source: list[bytes], copy: list[bytes]) -> str:
    """Where a copy begins to differ, and whether it has records twice or not at all."""
    at = next((n for n, both in enumerate(zip(source, copy, strict=False)) if both[0] != both[1]), len(copy))
    twice = [value for value, count in Counter(copy).items() if count > 1]
    missing = sorted(set(source) - set(copy))
    return (
        f"{len(copy)} of {len(source)} records, different from number {at} on: {source[at : at + 3]!r}, {copy[at : at + 3]!r}; "
        f"{len(twice)} twice {twice[:3]!r}, {len(missing)} missing {missing[:3]!r}"
    )
