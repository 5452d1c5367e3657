"""What is known of a cluster, and how an answer to Metadata changes it. Pure.

A partition's leader never goes back to an older leader epoch: brokers learn of elections at different moments, and the one that was
asked may be behind. A topic that was deleted and made again has a new id; then its epochs start anew.
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
    """A broker and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    security: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def endpoint(self) -> Endpoint:
        """Where clients connect to it."""
        return Endpoint(self.host, self.port, self.security)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition's leader and replicas; leader -1 is none."""

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
    """All that is known; a new one replaces it when more is learnt."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    refused: Mapping[str, ErrorCode] = field(default_factory=dict)
    """Topics that were asked for and got an error."""
    security: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """Of the listeners that Metadata names: the one the client came by."""

    def leader(self, partition: TopicPartition) -> Partition | None:
        """The partition, when it is known."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def region_led_from(self, partition: TopicPartition) -> str:
        """The region of the partition's leader, empty while that is not known."""
        known = self.leader(partition)
        broker = None if known is None else self.brokers.get(known.leader)
        return "" if broker is None else region_of(broker.rack)

    def merged(self, response: Any, *, all_topics: bool = False) -> "ClusterView":
        """With what a MetadataResponse says; `all_topics` when it was asked for every topic."""
        brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack, self.security) for b in response.brokers}
        topics: dict[str, Topic] = {} if all_topics else dict(self.topics)
        refused: dict[str, ErrorCode] = {} if all_topics else dict(self.refused)
        for answer in response.topics:
            name = answer.name or self.names.get(answer.topic_id)
            if name is None:
                continue
            topics.pop(name, None)
            refused.pop(name, None)
            if answer.error_code is ErrorCode.none:
                topics[name] = _topic(name, answer, self.topics.get(name))
            else:
                refused[name] = answer.error_code
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
        """With what a broker said beside an error (KIP-951); older than what is known changes nothing."""
        topic = self.topics.get(partition.topic)
        known = self.leader(partition)
        if topic is None or known is None or leader_epoch <= known.leader_epoch or leader not in self.brokers:
            return self
        moved = replace(known, leader=leader, leader_epoch=leader_epoch)
        partitions = {**topic.partitions, partition.partition: moved}
        return replace(self, topics={**self.topics, topic.name: replace(topic, partitions=partitions)})

    def with_brokers(self, endpoints: Iterable[tuple[int, str, int, str | None]]) -> "ClusterView":
        """With where a broker said that leaders are (KIP-951)."""
        told = {node_id: Broker(node_id, host, port, rack) for node_id, host, port, rack in endpoints}
        return replace(self, brokers={**self.brokers, **told}) if told else self


def _topic(name: str, answer: Any, known: Topic | None) -> Topic:
    before: Mapping[int, Partition] = {}
    if known is not None and known.topic_id == answer.topic_id:
        before = known.partitions
    partitions = {p.partition_index: _newer(_partition(p), before.get(p.partition_index)) for p in answer.partitions}
    return Topic(name, answer.topic_id, answer.is_internal, dict(sorted(partitions.items())))


def _partition(answer: Any) -> Partition:
    return Partition(
        answer.partition_index,
        answer.leader_id,
        answer.leader_epoch,
        tuple(answer.replica_nodes),
        tuple(answer.isr_nodes),
        tuple(answer.offline_replicas),
        answer.error_code,
    )


def _newer(told: Partition, known: Partition | None) -> Partition:
    """Brokers before Kafka 2.1 say no epoch; then the last word counts."""
    if known is None or told.leader_epoch < 0 or told.leader_epoch >= known.leader_epoch:
        return told
    return known


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, both in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped
