"""Snapshots of clusters: what the latest poll found, which broker reported it, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from isthmus_client.admin.cluster import Cluster
from isthmus_client.admin.replicas import PartitionStatus
from isthmus_client.metadata import Topic, TopicPartition


class ClusterState(StrEnum):
    """Whether a cluster is reachable."""

    UP = "UP"
    UNREACHABLE = "UNREACHABLE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class ReplicasReport:
    """A partition's replicas, as its leader reports them."""

    at_ms: int
    reporter: int
    status: PartitionStatus


@dataclass(frozen=True, slots=True)
class SourceReport:
    """When the leader of a mirrored partition last received the source's position; before the first one, when it was first polled."""

    at_ms: int
    reporter: int
    last_update_ms: int


@dataclass(frozen=True, slots=True)
class LinkReport:
    """A link as its destination describes it, with the partitions that it copies."""

    name: str
    source_cluster: str
    state: str
    message: str
    topics: int
    sources: Mapping[TopicPartition, SourceReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What the latest successful poll found; without `described` there was none. `failed` polls since then found nothing."""

    state: ClusterState = ClusterState.UNKNOWN
    message: str = ""
    updated_ms: int | None = None
    described: Cluster | None = None
    topics: Mapping[str, Topic] | None = None
    replicas: Mapping[TopicPartition, ReplicasReport] | None = None
    links: Sequence[LinkReport] = ()
    failed: int = 0
