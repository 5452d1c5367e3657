"""The cached metadata of a cluster, and how a Metadata response updates it. Pure.

A partition's leader never returns to an older leader epoch: brokers apply elections at different times, and the response may come from one
that is behind. A recreated topic has a new id, and its epochs start again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from isthmus_model.endpoints import Endpoint, SecurityProtocol
from isthmus_model.regions import region_of
from isthmus_wire.errors import ErrorCode


class TopicPartition(NamedTuple):
    """A partition by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Broker(NamedTuple):
    """A broker and its address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    security: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def endpoint(self) -> Endpoint:
        """The address that clients connect to."""
        return Endpoint(self.host, self.port, self.security)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's leader and replicas; leader -1 means none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; `partitions` by index."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: Mapping[int, Partition]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """An immutable view of the cluster; updates return a new one."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    refused: Mapping[str, ErrorCode] = field(default_factory=dict)
    """Errors of requested topics."""
    security: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """Security protocol of the listener that the client uses, which Metadata describes."""

    def leader(self, partition: TopicPartition) -> Partition | None:
        """The partition, if it is in the metadata."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def region_led_from(self, partition: TopicPartition) -> str:
        """The region of the partition's leader; empty while unknown."""
        current = self.leader(partition)
        broker = None if current is None else self.brokers.get(current.leader)
        return "" if broker is None else region_of(broker.rack)

    def merged(self, response: Any, *, all_topics: bool = False) -> "ClusterView":
        """The view updated by a MetadataResponse; `all_topics` if the request was for every topic."""
        brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack, self.security) for b in response.brokers}
        topics: dict[str, Topic] = {} if all_topics else dict(self.topics)
        refused: dict[str, ErrorCode] = {} if all_topics else dict(self.refused)
        for described in response.topics:
            name = described.name or self.names.get(described.topic_id)
            if name is None:
                continue
            topics.pop(name, None)
            refused.pop(name, None)
            if described.error_code is ErrorCode.none:
                topics[name] = _topic(name, described, self.topics.get(name))
            else:
                refused[name] = described.error_code
        names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id is not None}
        return ClusterView(
            cluster_id=response.cluster_id or self.cluster_id,
            controller_id=response.controller_id,
            brokers=brokers or self.brokers,
            topics=topics,
            names=names,
            refused=refused,
            security=self.security,
        )

    def with_leader(self, partition: TopicPartition, leader: int, leader_epoch: int) -> "ClusterView":
        """The view with the new leader that came with an error (KIP-951), unless its epoch is not newer."""
        topic = self.topics.get(partition.topic)
        current = self.leader(partition)
        if topic is None or current is None or leader_epoch <= current.leader_epoch or leader not in self.brokers:
            return self
        moved = replace(current, leader=leader, leader_epoch=leader_epoch)
        partitions = {**topic.partitions, partition.partition: moved}
        return replace(self, topics={**self.topics, topic.name: replace(topic, partitions=partitions)})

    def with_brokers(self, endpoints: Iterable[tuple[int, str, int, str | None]]) -> "ClusterView":
        """The view with the endpoints that came with new leaders (KIP-951)."""
        brokers = {node_id: Broker(node_id, host, port, rack) for node_id, host, port, rack in endpoints}
        return replace(self, brokers={**self.brokers, **brokers}) if brokers else self


def _topic(name: str, described: Any, current: Topic | None) -> Topic:
    before: Mapping[int, Partition] = {}
    if current is not None and current.topic_id == described.topic_id:
        before = current.partitions
    partitions = {p.partition_index: _newer(_partition(p), before.get(p.partition_index)) for p in described.partitions}
    return Topic(name, described.topic_id, described.is_internal, dict(sorted(partitions.items())))


def _partition(described: Any) -> Partition:
    return Partition(
        described.partition_index,
        described.leader_id,
        described.leader_epoch,
        tuple(described.replica_nodes),
        tuple(described.isr_nodes),
        tuple(described.offline_replicas),
        described.error_code,
    )


def _newer(received: Partition, current: Partition | None) -> Partition:
    """The one with the newer epoch; brokers before Kafka 2.1 send none, then the response wins."""
    if current is None or received.leader_epoch < 0 or received.leader_epoch >= current.leader_epoch:
        return received
    return current


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, both in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped
