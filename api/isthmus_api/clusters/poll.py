"""One look at a cluster: what it says of itself, and what its leaders say of replicas and of the sources of mirror topics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.admin import links as link_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.mirrors import describe_mirrors
from isthmus_client.admin.replicas import PartitionStatus, replica_status
from isthmus_client.append_mirrored import progress
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_model.endpoints import Endpoint
from isthmus_wire.extensions.mirrors import MirrorState, PartitionProgress

from isthmus_api.core.cluster_state import ClusterSeen, ClusterState, LinkSeen, NewsSeen, ReplicasSeen
from isthmus_api.limits import STATUS_PARTITIONS_MAX
from isthmus_api.store.inventory import ClusterKind

T = TypeVar("T")
Clock = Callable[[], int]
Ask = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | ClientError]]]
Told = dict[TopicPartition, tuple[int, T]]
"""What leaders said, and which of them."""

_ATTEMPTS: Final = 3
_MOMENT_SECONDS: Final = 3.0
_COPYING: Final = frozenset({MirrorState.ACTIVE, MirrorState.SOURCE_UNAVAILABLE, MirrorState.PENDING_STOPPED})


async def look(
    client: Client, kind: ClusterKind, before: ClusterSeen, now: Clock, is_away: Callable[[Endpoint], bool]
) -> ClusterSeen:
    """What leaders do not say now stays as it was, with its time. Raises ClientError or TimeoutError when no broker answers."""
    at = now()
    described = await _in_a_moment(lambda: cluster_admin.describe(client))
    topics = await _in_a_moment(lambda: topic_admin.list_topics(client))
    if kind is not ClusterKind.ISTHMUS:
        return ClusterSeen(state=ClusterState.UP, seen_ms=at, described=described, topics=topics)
    gone = {broker.node_id for broker in described.brokers if is_away(broker.endpoint)}
    leaders = {partition: -1 if leader in gone else leader for partition, leader in _led(topics)}
    replicas, links = await asyncio.gather(
        _replicas(client, leaders, before.replicas or {}, now), _links(client, leaders, before.links, now)
    )
    return ClusterSeen(
        state=ClusterState.UP,
        seen_ms=at,
        described=described,
        topics=topics,
        replicas={partition: told for partition, told in replicas.items() if partition in leaders},
        links=links,
    )


def _led(topics: Mapping[str, Topic]) -> Iterable[tuple[TopicPartition, int]]:
    """Every partition with its leader, or -1."""
    for topic in topics.values():
        for partition in topic.partitions.values():
            yield TopicPartition(topic.name, partition.index), partition.leader


async def _in_a_moment(ask: Callable[[], Awaitable[T]]) -> T:
    """A broker behind a cut does not answer, and another may: whoever is asked is drawn anew each time."""
    for _ in range(_ATTEMPTS - 1):
        try:
            async with asyncio.timeout(_MOMENT_SECONDS):
                return await ask()
        except TimeoutError:
            continue
    async with asyncio.timeout(_MOMENT_SECONDS):
        return await ask()


async def _of_leaders(leaders: Mapping[TopicPartition, int], ask: Ask[T]) -> Told[T]:
    """What the leaders say that answer in a moment, asked all at once."""
    shares: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        if leader >= 0:
            shares.setdefault(leader, []).append(partition)

    async def of_one(leader: int, share: list[TopicPartition]) -> Told[T]:
        try:
            async with asyncio.timeout(_MOMENT_SECONDS):
                told = await ask(share)
        except (TimeoutError, ClientError):
            return {}
        return {partition: (leader, one) for partition, one in told.items() if not isinstance(one, ClientError)}

    found: Told[T] = {}
    for told in await asyncio.gather(*(of_one(leader, share) for leader, share in shares.items())):
        found |= told
    return found


async def _replicas(
    client: Client, leaders: Mapping[TopicPartition, int], before: Mapping[TopicPartition, ReplicasSeen], now: Clock
) -> dict[TopicPartition, ReplicasSeen]:
    counted = dict(list(leaders.items())[:STATUS_PARTITIONS_MAX])

    async def ask(share: list[TopicPartition]) -> Mapping[TopicPartition, PartitionStatus | ClientError]:
        return await replica_status(client, share)

    told = await _of_leaders(counted, ask)
    at = now()
    return {**before, **{partition: ReplicasSeen(at, *one) for partition, one in told.items()}}


async def _links(
    client: Client, leaders: Mapping[TopicPartition, int], before: Iterable[LinkSeen], now: Clock
) -> list[LinkSeen]:
    links = await _in_a_moment(lambda: link_admin.describe_links(client))
    if not links:
        return []
    mirrors = await _in_a_moment(lambda: describe_mirrors(client))
    copied = {
        TopicPartition(mirror.topic, index): mirror.link_name
        for mirror in mirrors
        if mirror.state in _COPYING
        for index in range(mirror.partitions)
    }
    copied = dict(list(copied.items())[:STATUS_PARTITIONS_MAX])

    async def ask(share: list[TopicPartition]) -> Mapping[TopicPartition, PartitionProgress | ClientError]:
        return await progress(client, share)

    told = await _of_leaders({partition: leaders.get(partition, -1) for partition in copied}, ask)
    known = {link.name: link.news for link in before}
    at = now()
    return [
        LinkSeen(
            link.name,
            link.source_cluster_id,
            link.state,
            link.link_error_message,
            len(link.mirror_topics),
            {
                partition: news
                for partition, name in copied.items()
                if name == link.name
                and (news := heard(told.get(partition), known.get(name, {}).get(partition), at)) is not None
            },
        )
        for link in links
    ]


def heard(told: tuple[int, PartitionProgress] | None, before: NewsSeen | None, at_ms: int) -> NewsSeen | None:
    """When a copy's source was last heard of, as far as anybody said."""
    if told is None:
        return before
    leader, answer = told
    if answer.last_heard_lag_ms >= 0:
        return NewsSeen(at_ms, leader, at_ms - answer.last_heard_lag_ms)
    return NewsSeen(at_ms, leader, at_ms if before is None else before.heard_ms)
