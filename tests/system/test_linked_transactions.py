"""A failover with transactional producers on both sides: what the source leaves open is aborted, and its producers change nothing here."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from isthmus_client.admin.transactions import open_transactions
from isthmus_client.metadata import TopicPartition

from tests.node import Node, running_node
from tests.system.ledger import wait_until
from tests.system.linker import await_level, await_mirrors, await_states, link, running_linker
from tests.system.quorums import query
from tests.system.test_linker import make

TOPIC = "payments"
PARTITIONS = 2
ID = "payments-1"
SECONDS = 60


def producer_of(node: Node) -> Producer:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": ID, "log_level": 2})
    producer.init_transactions(SECONDS)
    return producer


def write(producer: Producer, transaction: str) -> None:
    """Begin a transaction, and write a record to each partition."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, transaction, partition=partition)
    assert producer.flush(SECONDS) == 0


def _write_and_commit(producer: Producer, transaction: str) -> None:
    write(producer, transaction)
    producer.commit_transaction(SECONDS)


def committed(node: Node, count: int) -> list[tuple[int, str]]:
    """What a consumer of committed records gets: `count` records, and none more within a second."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    records: list[tuple[int, str]] = []

    def read() -> bool:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            records.append((message.partition() or 0, (message.value() or b"").decode()))
        return message is None and len(records) >= count

    consumer.subscribe([TOPIC])
    try:
        wait_until(read, f"{count} committed records", lambda: records)
    finally:
        consumer.close()
    return sorted(records)


def test_transactions_before_and_after_a_failover(tmp_path: Path) -> None:
    with running_node(tmp_path / "source") as source, running_node(tmp_path / "destination") as destination:
        make(source.bootstrap, TOPIC, PARTITIONS)
        zombie = producer_of(source)
        write(zombie, "before")
        zombie.commit_transaction(SECONDS)
        write(zombie, "open")
        link(destination.bootstrap, "create", "west", "--source", source.bootstrap)
        link(destination.bootstrap, "mirror", "create", "west", TOPIC)
        copied = {TopicPartition(TOPIC, index): TopicPartition(TOPIC, index) for index in range(PARTITIONS)}
        with running_linker(tmp_path, destination.bootstrap):
            await_mirrors(destination.bootstrap, lambda mirrors: TOPIC in mirrors)
            await_level(source.bootstrap, destination.bootstrap, copied)
            assert committed(destination, PARTITIONS) == [(0, "before"), (1, "before")]
            link(destination.bootstrap, "mirror", "failover", TOPIC)
            await_states(destination.bootstrap, {TOPIC: "STOPPED"})

        # The source is still there, and so is its producer: it commits at the source, and nothing of it comes here.
        zombie.commit_transaction(SECONDS)
        write(zombie, "after at the source")
        zombie.commit_transaction(SECONDS)

        # The same transactional id at the destination has a producer of its own, which the source's cannot fence.
        producer = producer_of(destination)
        write(producer, "after")
        producer.commit_transaction(SECONDS)
        write(producer, "aborted")
        producer.abort_transaction(SECONDS)
        expected = [(0, "after"), (0, "before"), (1, "after"), (1, "before")]
        assert committed(destination, 2 * PARTITIONS) == expected
        assert query(destination.bootstrap, lambda client: open_transactions(client, list(copied))) == []

        # A second producer of that id fences the first one here; the source's continues at the source.
        second = producer_of(destination)
        with pytest.raises(KafkaException) as refused:
            _write_and_commit(producer, "fenced")
        assert refused.value.args[0].fatal()
        write(second, "second")
        second.commit_transaction(SECONDS)
        assert committed(destination, 3 * PARTITIONS) == sorted([*expected, (0, "second"), (1, "second")])
        write(zombie, "still at the source")
        zombie.commit_transaction(SECONDS)
        assert len(committed(source, 4 * PARTITIONS)) == 4 * PARTITIONS
