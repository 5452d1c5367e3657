"""Transactions of real clients, unmodified, against Apache Kafka and against a node."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # re-exported without saying so
from confluent_kafka.cimpl import NewTopic

from tests.conformance.clients.transactional import (
    END,
    AioKafka,
    Client,
    ConfluentKafka,
    FranzGo,
    Java,
    KafkaPython,
    Refused,
)
from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.kafka import running_kafka
from tests.node import running_node

TIMEOUT_MS: Final = 60_000
SHORT_TIMEOUT_MS: Final = 1_000
CLIENTS: Final[dict[str, type[Client]]] = {
    "confluent-kafka": ConfluentKafka,
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
    "java": Java,
    "franz-go": FranzGo,
}
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "4",
}
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["Apache Kafka", "Isthmus"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node of either system."""
    running = running_node if request.param == "Isthmus" else running_kafka
    with running(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        yield node.bootstrap


@pytest.fixture(params=CLIENTS)
def kind(request: pytest.FixtureRequest) -> type[Client]:
    """Each client."""
    return CLIENTS[request.param]


@contextmanager
def connected(
    kind: type[Client], bootstrap: str, transactional_id: str, timeout_ms: int = TIMEOUT_MS
) -> Iterator[Client]:
    with closing(kind(bootstrap, transactional_id, timeout_ms)) as client:
        yield client


def create_topic(bootstrap: str) -> str:
    """A topic of one partition, whose name serves as a transactional id as well."""
    name = f"transactional-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_SECONDS)
    return name


def transact(client: Client, topic: str, *values: bytes, commits: bool = True) -> None:
    client.begin()
    for value in values:
        client.send(topic, value)
    if commits:
        client.commit()
    else:
        client.abort()


def end_offset(bootstrap: str, topic: str, isolation: IsolationLevel) -> int:
    partition = TopicPartition(topic, 0)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # not typed there
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_offsets({partition: latest}, isolation_level=isolation)[partition]
    return int(listed.result(DEADLINE_SECONDS).offset)


def last_stable_offset(bootstrap: str, topic: str) -> int:
    return end_offset(bootstrap, topic, IsolationLevel.READ_COMMITTED)


def committed_offset(bootstrap: str, group: str, topic: str) -> int | str:
    """The group's offset, or the name of the error."""
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_group_offsets([request], require_stable=True)[group].result(DEADLINE_SECONDS)
    (found,) = listed.topic_partitions
    return int(found.offset) if found.error is None else str(found.error.name())


def await_committed(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Until the group has it: the markers are written after the response."""
    wait_until(lambda: committed_offset(bootstrap, group, topic) == offset, f"the offset {offset}")


def test_consumers_of_committed_records_get_committed_ones(bootstrap: str, kind: type[Client]) -> None:
    topic = create_topic(bootstrap)
    with connected(kind, bootstrap, topic) as client:
        transact(client, topic, b"1", b"2")
        transact(client, topic, b"aborted-1", b"aborted-2", commits=False)
        transact(client, topic, b"3")
        transact(client, topic, b"aborted-3", commits=False)
        transact(client, topic, END)
        assert client.read(topic, committed=True) == [b"1", b"2", b"3", END]
        aborted = [b"aborted-1", b"aborted-2"]
        assert client.read(topic, committed=False) == [b"1", b"2", *aborted, b"3", b"aborted-3", END]


def test_an_open_transaction_holds_back_consumers_of_committed_records(bootstrap: str, kind: type[Client]) -> None:
    topic = create_topic(bootstrap)
    with connected(kind, bootstrap, topic) as client, connected(kind, bootstrap, f"{topic}-other") as other:
        transact(client, topic, b"1")
        client.begin()
        client.send(topic, b"2")
        transact(other, topic, b"3", END)
        wait_until(lambda: end_offset(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED) == 6, "the other's marker")
        assert last_stable_offset(bootstrap, topic) == 2
        assert client.read(topic, committed=False) == [b"1", b"2", b"3", END]
        client.commit()
        wait_until(lambda: last_stable_offset(bootstrap, topic) == 7, "the last stable offset behind the marker")
        assert client.read(topic, committed=True) == [b"1", b"2", b"3", END]


@pytest.mark.parametrize("kind", [kind for kind in CLIENTS.values() if kind is not FranzGo])
def test_offsets_are_committed_with_the_transaction(bootstrap: str, kind: type[Client]) -> None:
    topic = create_topic(bootstrap)
    with connected(kind, bootstrap, topic) as client:
        for offset, commits in ((5, True), (9, False), (7, True)):
            client.begin()
            client.send(topic, b"x")
            client.send_offset(topic, topic, offset)
            assert committed_offset(bootstrap, topic, topic) == "UNSTABLE_OFFSET_COMMIT"
            if commits:
                client.commit()
                expected = offset
            else:
                client.abort()
            await_committed(bootstrap, topic, topic, expected)


def test_franz_go_consumes_transforms_and_produces(bootstrap: str) -> None:
    source, target = create_topic(bootstrap), create_topic(bootstrap)
    with closing(FranzGo(bootstrap, source, TIMEOUT_MS)) as client:
        transact(client, source, b"1", END)
        client.transfer("franz-go", source, target, commits=False)
        client.transfer("franz-go", source, target, commits=True)
        assert client.read(target, committed=True) == [b"1", END]
    wait_until(lambda: last_stable_offset(bootstrap, target) == 6, "the records and markers of both transactions")
    await_committed(bootstrap, "franz-go", source, 2)


def test_a_second_producer_fences_the_first(bootstrap: str, kind: type[Client]) -> None:
    topic = create_topic(bootstrap)
    with connected(kind, bootstrap, topic) as first:
        transact(first, topic, b"1")
        first.begin()
        first.send(topic, b"aborted")
        with connected(kind, bootstrap, topic) as second:
            assert last_stable_offset(bootstrap, topic) == end_offset(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)
            transact(second, topic, b"2")
            with pytest.raises(Refused) as refused:
                first.commit()
            assert refused.value.fenced
            transact(second, topic, END)
            assert second.read(topic, committed=True) == [b"1", b"2", END]


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, kind: type[Client]) -> None:
    topic = create_topic(bootstrap)
    with connected(kind, bootstrap, topic, SHORT_TIMEOUT_MS) as client:
        client.begin()
        client.send(topic, b"aborted")
        wait_until(lambda: last_stable_offset(bootstrap, topic) == 2, "the coordinator to abort the transaction")
        with pytest.raises(Refused):
            client.commit()
    with connected(kind, bootstrap, topic) as client:
        transact(client, topic, END)
        assert client.read(topic, committed=True) == [END]
