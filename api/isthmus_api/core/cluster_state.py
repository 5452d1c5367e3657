"""What was seen of a cluster when it was last looked at, and who told it when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from isthmus_client.admin.cluster import Cluster
from isthmus_client.admin.replicas import PartitionStatus
from isthmus_client.metadata import Topic, TopicPartition


class ClusterState(StrEnum):
    """Whether a cluster answers."""

    UP = "UP"
    AWAY = "AWAY"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ReplicasSeen:
    """A partition's replicas in its leader's words."""

    at_ms: int
    teller: int
    status: PartitionStatus


@dataclass(frozen=True, slots=True)
class NewsSeen:
    """When the leader of a mirrored partition had last heard of its source; one that never did has waited since it was first asked."""

    at_ms: int
    teller: int
    heard_ms: int


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """A link as its destination describes it, with the partitions that it copies."""

    name: str
    source_cluster: str
    state: str
    message: str
    topics: int
    news: Mapping[TopicPartition, NewsSeen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What a cluster told when it last answered; without `described` it never did. `failed` looks since then found nothing."""

    state: ClusterState = ClusterState.UNKNOWN
    message: str = ""
    seen_ms: int | None = None
    described: Cluster | None = None
    topics: Mapping[str, Topic] | None = None
    replicas: Mapping[TopicPartition, ReplicasSeen] | None = None
    links: Sequence[LinkSeen] = ()
    failed: int = 0
