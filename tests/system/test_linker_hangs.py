"""The linker with unresponsive brokers: they are paused (SIGSTOP), not dead, so connections stay open and leaders stay leaders."""

import json
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from isthmus_client.admin.partitions import elect
from isthmus_client.admin.topics import describe
from isthmus_client.append_mirrored import progress
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results

from tests.node import COMBINED, Cluster, running_cluster, running_node
from tests.system.ledger import wait_until
from tests.system.linker import assert_identical, await_level, link, running_linker
from tests.system.quorums import leaders, query, wait_for
from tests.system.test_linker import RF3, SOURCE_ID, fill, make, same

PATIENT: Final = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "600000"}
"""Timeouts under which a paused broker stays leader and in sync."""
ROUNDS: Final = 4


@contextmanager
def hanging(cluster: Cluster, number: int) -> Iterator[str]:
    """A node that hangs while the block runs; gives the addresses of the others."""
    cluster.nodes[number].signal(signal.SIGSTOP)
    try:
        yield ",".join(cluster.nodes[other].bootstrap for other in cluster.brokers if other != number)
    finally:
        cluster.nodes[number].signal(signal.SIGCONT)


def write(bootstrap: str, partitions: Collection[TopicPartition]) -> None:
    """A record into each of these partitions, and no others."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2})
    for topic, partition in partitions:
        producer.produce(topic, "a record", partition=partition)
    assert producer.flush(60) == 0


def led_by(bootstrap: str, topic: str) -> dict[TopicPartition, int | None]:
    found = query(bootstrap, lambda client: describe(client, [topic]))[topic]
    return {TopicPartition(topic, index): partition.leader for index, partition in found.partitions.items()}


def reported(destination: str) -> tuple[str, str, str | None]:
    """What the destination says of the link."""
    (one,) = json.loads(link(destination, "describe", "west", "-o", "json"))
    return one["state"], one["error"], one["error_message"]


def test_a_broker_of_the_source_that_hangs_holds_up_its_own_partitions_alone(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "source", [COMBINED] * 3, settings=RF3 | PATIENT, cluster_id=SOURCE_ID) as source,
        running_node(tmp_path / "destination") as destination,
        running_linker(tmp_path, destination.bootstrap) as linker,
    ):
        for topic in ("orders", "late"):
            make(source.bootstrap, topic, 6)
            fill(source.bootstrap, topic, 6, 300)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap)
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        both = same("orders", 6) | same("late", 6)
        await_level(source.bootstrap, destination.bootstrap, same("orders", 6))
        hung = led_by(source.bootstrap, "orders")[TopicPartition("orders", 0)]
        assert hung is not None
        place = led_by(source.bootstrap, "orders") | led_by(source.bootstrap, "late")
        others = {partition: partition for partition, leader in place.items() if leader != hung}
        assert 0 < len(others) < len(both)

        with hanging(source, hung) as rest:
            wait_until(lambda: linker.unreachable_brokers() == {hung}, "a worker that has noticed")
            said = ("ACTIVE", "TIMEOUT_ERROR", f"broker {hung} of the source does not respond")
            wait_until(lambda: reported(destination.bootstrap) == said, "the report at the destination")
            orders = {partition: copy for partition, copy in others.items() if partition.topic == "orders"}
            for _ in range(ROUNDS):
                write(rest, orders)
                await_level(rest, destination.bootstrap, orders)
        wait_until(lambda: reported(destination.bootstrap) == ("ACTIVE", "NO_ERROR", None), "a source without trouble")
        assert linker.unreachable_brokers() == set()

        linker.kill()
        link(destination.bootstrap, "mirror", "create", "west", "late")
        with hanging(source, hung) as rest:
            linker.start()
            write(rest, others)
            await_level(rest, destination.bootstrap, others)
        write(source.bootstrap, both)
        await_level(source.bootstrap, destination.bootstrap, both)
        assert_identical(source.bootstrap, destination.bootstrap, both)


def test_a_leader_of_the_source_that_hangs_is_left_for_the_next_one(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path / "source", [COMBINED] * 3, settings=RF3, cluster_id=SOURCE_ID) as source,
        running_node(tmp_path / "destination") as destination,
        running_linker(tmp_path, destination.bootstrap),
    ):
        make(source.bootstrap, "orders", 6, 3)
        orders = same("orders", 6)
        fill(source.bootstrap, "orders", 6, 300)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap)
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        await_level(source.bootstrap, destination.bootstrap, orders)
        hung = max(leader for leader in leaders(source.bootstrap, "orders") if leader is not None)
        with hanging(source, hung) as rest:
            wait_until(lambda: hung not in leaders(rest, "orders"), "other leaders")
            fill(rest, "orders", 6, 300)
            await_level(rest, destination.bootstrap, orders)
        assert_identical(source.bootstrap, destination.bootstrap, orders)


def test_a_leader_of_the_destination_that_hangs_is_left_for_the_next_one(tmp_path: Path) -> None:
    with (
        running_node(tmp_path / "source") as source,
        running_cluster(tmp_path / "destination", [COMBINED] * 3, settings=RF3) as destination,
        running_linker(tmp_path, destination.bootstrap),
    ):
        make(source.bootstrap, "orders", 6)
        orders = same("orders", 6)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap)
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        fill(source.bootstrap, "orders", 6, 300)
        await_level(source.bootstrap, destination.bootstrap, orders)
        hung = max(leader for leader in leaders(destination.bootstrap, "orders") if leader is not None)
        with hanging(destination, hung) as rest:
            fill(source.bootstrap, "orders", 6, 300)
            await_level(source.bootstrap, rest, orders)
        await_level(source.bootstrap, destination.bootstrap, orders)
        assert_identical(source.bootstrap, destination.bootstrap, orders)


def test_a_stuck_replica_of_the_destination_holds_up_its_own_partitions_alone(tmp_path: Path) -> None:
    """Its partitions are not appended to again while what they got is not committed; others of the same leaders are, round after round."""
    stuck = 4
    with (
        running_node(tmp_path / "source") as source,
        running_cluster(
            tmp_path / "destination", [COMBINED, COMBINED, COMBINED, "broker"], settings=RF3 | PATIENT
        ) as destination,
        running_linker(tmp_path, destination.bootstrap),
    ):
        make(source.bootstrap, "orders", 24)
        everything = same("orders", 24)
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap)
        link(destination.bootstrap, "mirror", "create", "west", "orders")
        write(source.bootstrap, everything)
        await_level(source.bootstrap, destination.bootstrap, everything)
        query(destination.bootstrap, lambda client: elect(client, None))  # stalls of a busy machine move leaders
        replicas = wait_for(
            destination.bootstrap,
            lambda client: describe(client, ["orders"]),
            lambda found: all(p.leader == p.replicas[0] for p in found["orders"].partitions.values()),
        )["orders"].partitions
        free = {tp: tp for tp in everything if stuck not in replicas[tp.partition].replicas}
        waiting = [tp for tp in everything if stuck in replicas[tp.partition].replicas[1:]]
        assert {replicas[tp.partition].leader for tp in free} & {replicas[tp.partition].leader for tp in waiting}

        with hanging(destination, stuck) as rest:
            write(source.bootstrap, everything)
            ends = wait_for(rest, lambda client: uncommitted(client, waiting), lambda found: all(found.values()))
            for _ in range(ROUNDS):
                write(source.bootstrap, [*free, *waiting])
                await_level(source.bootstrap, rest, free)
            assert query(rest, lambda client: uncommitted(client, waiting)) == ends
        await_level(source.bootstrap, destination.bootstrap, everything)
        assert_identical(source.bootstrap, destination.bootstrap, everything)


async def uncommitted(client: Client, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """How many records not every in-sync replica has."""
    found = results(await progress(client, partitions))
    return {partition: one.log_end_offset - one.high_watermark for partition, one in found.items()}
