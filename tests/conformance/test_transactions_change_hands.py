"""A node continues the transactions that Apache Kafka left in a directory, and Apache Kafka those of a node.

One transaction is committed, one aborted, and one open, with records and with a group's offset; its producer is gone.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # re-exported without saying so
from confluent_kafka.cimpl import NewTopic

from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.conformance.test_data_directories import Server, format_by, pair
from tests.exactly_once.open_transactions import await_none_open, await_open
from tests.exactly_once.reader import read_all
from tests.histories import StillOpen

TOPIC: Final = "transactions"
GROUP: Final = "transactions"
OPEN_ID: Final = "open"
COMMITTED_OFFSET: Final = 5
PENDING_OFFSET: Final = 9
SETTINGS: Final = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}
PLACES: Final = [(TOPIC, 0), *(("__consumer_offsets", number) for number in range(4))]
OPEN_OFFSET: Final = 6
"""Behind two transactions of two records and a marker each."""


def producer(server: Server, transactional_id: str) -> Producer:
    started = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,  # no transaction is open for so long
            "log_level": 2,
        }
    )
    retried(lambda: started.init_transactions(DEADLINE_SECONDS))
    return started


def retried(action: Callable[[], object]) -> None:
    """Again for as long as librdkafka says that it helps: coordinators load."""

    def succeeded() -> bool:
        try:
            action()
        except KafkaException as refused:
            if not refused.args[0].retriable():
                raise
            return False
        return True

    wait_until(succeeded, "an operation that is retried")


def send(started: Producer, server: Server, values: tuple[bytes, bytes], offset: int | None) -> None:
    """Begin a transaction with two records, and with an offset of the group."""
    started.begin_transaction()
    for value in values:
        started.produce(TOPIC, value, b"key", partition=0)
    assert started.flush(DEADLINE_SECONDS) == 0
    if offset is not None:
        with closing(Consumer({"bootstrap.servers": server.bootstrap, "group.id": GROUP})) as consumer:
            member = consumer.consumer_group_metadata()
            positions = [TopicPartition(TOPIC, 0, offset)]
            retried(lambda: started.send_offsets_to_transaction(positions, member, DEADLINE_SECONDS))


def write(server: Server) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(DEADLINE_SECONDS)
    ended = producer(server, "ended")
    send(ended, server, (b"committed-1", b"committed-2"), COMMITTED_OFFSET)
    retried(lambda: ended.commit_transaction(DEADLINE_SECONDS))
    send(ended, server, (b"aborted-1", b"aborted-2"), COMMITTED_OFFSET + 1)
    retried(lambda: ended.abort_transaction(DEADLINE_SECONDS))
    assert await_none_open(server.bootstrap, PLACES) == []
    send(producer(server, OPEN_ID), server, (b"open-1", b"open-2"), PENDING_OFFSET)


def end_offset(server: Server, isolation: IsolationLevel) -> int:
    partition = TopicPartition(TOPIC, 0)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # not typed there
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    listed = admin.list_offsets({partition: latest}, isolation_level=isolation)[partition]
    return int(listed.result(DEADLINE_SECONDS).offset)


def group_offset(server: Server) -> int | str:
    """The offset, or the name of the error."""
    request = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0)])
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    try:
        listed = admin.list_consumer_group_offsets([request], require_stable=True)[GROUP].result(DEADLINE_SECONDS)
    except KafkaException as refused:
        return str(refused.args[0].name())
    (found,) = listed.topic_partitions
    return int(found.offset) if found.error is None else str(found.error.name())


def check_open(server: Server) -> None:
    """The transaction is open, and everything in it is held back."""
    ongoing = StillOpen(f"transactional id {OPEN_ID} is Ongoing")
    found = await_open(server.bootstrap, PLACES, lambda found: ongoing in found)
    assert found[-1:] == [ongoing]
    offsets, data = sorted(each.where for each in found[:-1])
    assert data.startswith(f"{TOPIC}-0: ")
    assert data.endswith(f" since offset {OPEN_OFFSET}")
    assert offsets.startswith("__consumer_offsets-")
    assert end_offset(server, IsolationLevel.READ_COMMITTED) == OPEN_OFFSET
    assert end_offset(server, IsolationLevel.READ_UNCOMMITTED) == OPEN_OFFSET + 2
    wait_until(lambda: group_offset(server) == "UNSTABLE_OFFSET_COMMIT", "an offset that is pending")


def continue_and_check(server: Server) -> None:
    """A new producer of the transactional id aborts the transaction; its own is committed."""
    successor = producer(server, OPEN_ID)
    assert end_offset(server, IsolationLevel.READ_COMMITTED) == OPEN_OFFSET + 3
    wait_until(lambda: group_offset(server) == COMMITTED_OFFSET, "the offset of the committed transaction")
    send(successor, server, (b"new-1", b"new-2"), PENDING_OFFSET + 1)
    retried(lambda: successor.commit_transaction(DEADLINE_SECONDS))
    assert await_none_open(server.bootstrap, PLACES) == []
    wait_until(lambda: group_offset(server) == PENDING_OFFSET + 1, "the new offset")
    (contents,) = read_all(server.bootstrap, [(TOPIC, 0)])
    assert [record.value for record in contents.records] == [b"committed-1", b"committed-2", b"new-1", b"new-2"]
    assert [record.offset for record in contents.records] == [0, 1, 9, 10]


def hand_over(first: Server, second: Server) -> None:
    try:
        first.start()
        write(first)
        check_open(first)
        assert first.stop() in (0, 143)  # a JVM that SIGTERM ends says so
        second.start()
        check_open(second)
        continue_and_check(second)
    finally:
        first.stop()
        second.stop()


@pytest.mark.parametrize("writer", ["Apache Kafka", "Isthmus"])
def test_transactions_change_hands(tmp_path: Path, writer: str) -> None:
    kafka, node, properties = pair(tmp_path / "both", SETTINGS)
    format_by(writer, properties)
    if writer == "Isthmus":
        hand_over(node, kafka)
    else:
        hand_over(kafka, node)
