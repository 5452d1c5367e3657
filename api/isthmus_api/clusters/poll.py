"""One poll of a cluster: its description, and what its leaders report about replicas and the sources of mirror topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from isthmus_client import append_mirrored
from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.admin import links as link_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.mirrors import describe_mirrors
from isthmus_client.admin.replicas import PartitionStatus, replica_status
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_model.endpoints import Endpoint
from isthmus_wire.extensions.mirrors import MirrorState, PartitionProgress

from isthmus_api.core.cluster_state import ClusterSnapshot, ClusterState, LinkReport, ReplicasReport, SourceReport
from isthmus_api.core.inventory import ClusterKind
from isthmus_api.limits import STATUS_PARTITIONS_MAX

T = TypeVar("T")
Clock = Callable[[], int]
Query = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | ClientError]]]
Reports = dict[TopicPartition, tuple[int, T]]
"""What leaders reported, and which leader did."""

_ATTEMPTS: Final = 3
_MOMENT_SECONDS: Final = 3.0
_COPYING: Final = frozenset({MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE, MirrorState.PENDING_STOPPED})


async def poll(
    client: Client, kind: ClusterKind, before: ClusterSnapshot, now: Clock, is_unreachable: Callable[[Endpoint], bool]
) -> ClusterSnapshot:
    """Poll a cluster, keeping earlier reports that are not renewed. Raises ClientError or TimeoutError when no broker responds."""
    at = now()
    described = await _briefly(lambda: cluster_admin.describe(client))
    topics = await _briefly(lambda: topic_admin.list_topics(client))
    if kind is not ClusterKind.ISTHMUS:
        return ClusterSnapshot(state=ClusterState.UP, updated_ms=at, described=described, topics=topics)
    gone = {broker.node_id for broker in described.brokers if is_unreachable(broker.endpoint)}
    leaders = {partition: -1 if leader in gone else leader for partition, leader in _led(topics)}
    replicas, links = await asyncio.gather(
        _replicas(client, leaders, before.replicas or {}, now), _links(client, leaders, before.links, now)
    )
    return ClusterSnapshot(
        state=ClusterState.UP,
        updated_ms=at,
        described=described,
        topics=topics,
        replicas={partition: report for partition, report in replicas.items() if partition in leaders},
        links=links,
    )


def _led(topics: Mapping[str, Topic]) -> Iterable[tuple[TopicPartition, int]]:
    """Every partition with its leader, or -1."""
    for topic in topics.values():
        for partition in topic.partitions.values():
            yield TopicPartition(topic.name, partition.index), partition.leader


async def _briefly(query: Callable[[], Awaitable[T]]) -> T:
    """Retry with a short timeout: an unreachable broker does not respond, and each attempt picks a broker at random."""
    for _ in range(_ATTEMPTS - 1):
        try:
            async with asyncio.timeout(_MOMENT_SECONDS):
                return await query()
        except TimeoutError:
            continue
    async with asyncio.timeout(_MOMENT_SECONDS):
        return await query()


async def _of_leaders(leaders: Mapping[TopicPartition, int], query: Query[T]) -> Reports[T]:
    """Query all leaders at the same time; those that do not respond in time are left out."""
    shares: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        if leader >= 0:
            shares.setdefault(leader, []).append(partition)

    async def of_one(leader: int, share: list[TopicPartition]) -> Reports[T]:
        try:
            async with asyncio.timeout(_MOMENT_SECONDS):
                reports = await query(share)
        except (TimeoutError, ClientError):
            return {}
        return {partition: (leader, one) for partition, one in reports.items() if not isinstance(one, ClientError)}

    merged: Reports[T] = {}
    for reports in await asyncio.gather(*(of_one(leader, share) for leader, share in shares.items())):
        merged |= reports
    return merged


async def _replicas(
    client: Client, leaders: Mapping[TopicPartition, int], before: Mapping[TopicPartition, ReplicasReport], now: Clock
) -> dict[TopicPartition, ReplicasReport]:
    counted = dict(list(leaders.items())[:STATUS_PARTITIONS_MAX])

    async def query(share: list[TopicPartition]) -> Mapping[TopicPartition, PartitionStatus | ClientError]:
        return await replica_status(client, share)

    reports = await _of_leaders(counted, query)
    at = now()
    return {**before, **{partition: ReplicasReport(at, *one) for partition, one in reports.items()}}


async def _links(
    client: Client, leaders: Mapping[TopicPartition, int], before: Iterable[LinkReport], now: Clock
) -> list[LinkReport]:
    links = await _briefly(lambda: link_admin.describe_links(client))
    if not links:
        return []
    mirrors = await _briefly(lambda: describe_mirrors(client))
    copied = {
        TopicPartition(mirror.topic, index): mirror.link_name
        for mirror in mirrors
        if mirror.state in _COPYING
        for index in range(mirror.partitions)
    }
    copied = dict(list(copied.items())[:STATUS_PARTITIONS_MAX])

    async def query(share: list[TopicPartition]) -> Mapping[TopicPartition, PartitionProgress | ClientError]:
        return await append_mirrored.progress(client, share)

    reports = await _of_leaders({partition: leaders.get(partition, -1) for partition in copied}, query)
    earlier = {link.name: link.sources for link in before}
    at = now()
    return [
        LinkReport(
            link.name,
            link.source_cluster_id,
            link.state,
            link.link_error_message,
            len(link.mirror_topics),
            {
                partition: source
                for partition, name in copied.items()
                if name == link.name
                and (source := source_report(reports.get(partition), earlier.get(name, {}).get(partition), at))
                is not None
            },
        )
        for link in links
    ]


def source_report(
    report: tuple[int, PartitionProgress] | None, before: SourceReport | None, at_ms: int
) -> SourceReport | None:
    """When the source's position was last received, by the leader's report or, without one, by the report before."""
    if report is None:
        return before
    leader, progress = report
    if progress.last_heard_lag_ms >= 0:
        return SourceReport(at_ms, leader, at_ms - progress.last_heard_lag_ms)
    return SourceReport(at_ms, leader, at_ms if before is None else before.last_update_ms)
