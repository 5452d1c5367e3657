"""Looks at every registered cluster again and again, so that the map can be shown at once, also while a cluster does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.admin import links as link_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.replicas import PartitionStatus, replica_status
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic, TopicPartition, region_of

from isthmus_api.clusters import Clusters
from isthmus_api.events import EventKind, Hub
from isthmus_api.lag.series import Ring
from isthmus_api.limits import STATUS_PARTITIONS_MAX, WATCH_SECONDS, WATCH_TIMEOUT_SECONDS
from isthmus_api.problems import Problem
from isthmus_api.store.inventory import ClusterKind, Inventory, RegisteredCluster
from isthmus_api.topology import ClusterSeen, ClusterState, LinkSeen, TopologyDocument, topology

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Looking may take this part of the time, no more: a cluster of many partitions is looked at less often.
_SHARE: Final = 5
_ATTEMPTS: Final = 3
_MOMENT_SECONDS: Final = 3.0
_KEEP_MS: Final = 10 * 60 * 1000


class Watch:
    """What was seen, and the news of it."""

    def __init__(
        self, inventory: Inventory, clusters: Clusters, ring: Ring, hub: Hub, now_ms: Callable[[], int]
    ) -> None:
        self._inventory = inventory
        self._clusters = clusters
        self._ring = ring
        self._hub = hub
        self._now_ms = now_ms
        self._seen: dict[str, ClusterSeen] = {}
        self._regions: dict[str, tuple[str, ...]] = {}
        self._last: TopologyDocument | None = None

    def controller(self, cluster_id: str) -> int | None:
        """The controller of a cluster that answers."""
        seen = self._seen.get(cluster_id, ClusterSeen())
        return seen.described.controller_id if seen.described is not None and seen.state is ClusterState.UP else None

    async def document(self) -> TopologyDocument:
        """The topology as it is known now."""
        regions, clusters = await self._inventory.regions(), await self._inventory.clusters()
        now = self._now_ms()
        return topology(now, regions, clusters, self._seen, self._ring.latest(now - _KEEP_MS))

    async def run(self) -> None:
        """For ever: every cluster is looked at at its own pace, and what is new is told."""
        lookers: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                wanted = {cluster.cluster_id: cluster for cluster in await self._inventory.clusters()}
                for cluster_id in lookers.keys() - wanted.keys():
                    lookers.pop(cluster_id).cancel()
                    self._seen.pop(cluster_id, None)
                for cluster_id in wanted.keys() - lookers.keys():
                    lookers[cluster_id] = asyncio.create_task(self._look_again(wanted[cluster_id]))
                for looker in lookers.values():
                    if looker.done():
                        looker.result()  # a looker does not end: whatever ended it ends this loop as well
                self._tell(await self.document())
                await asyncio.sleep(WATCH_SECONDS)
        finally:
            for looker in lookers.values():
                looker.cancel()

    async def _look_again(self, cluster: RegisteredCluster) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            answered = await self._look(cluster)
            pace = (loop.time() - started) * _SHARE if answered else 0
            await asyncio.sleep(max(WATCH_SECONDS, pace))

    async def _look(self, cluster: RegisteredCluster) -> bool:
        """Whether it answered."""
        before = self._seen.get(cluster.cluster_id, ClusterSeen())
        try:
            async with self._clusters.use(cluster.cluster_id, WATCH_TIMEOUT_SECONDS) as client:
                seen = await _seen(client, cluster.kind, self._now_ms())
        except Problem as problem:
            if before.state is not ClusterState.AWAY:
                logger.warning("cluster %s is away: %s", cluster.name, problem.message)
            self._seen[cluster.cluster_id] = replace(before, state=ClusterState.AWAY, message=problem.message)
            return False
        if before.state is ClusterState.AWAY:
            logger.info("cluster %s answers again", cluster.name)
        self._seen[cluster.cluster_id] = seen
        assert seen.described is not None
        regions = tuple(sorted({region for broker in seen.described.brokers if (region := region_of(broker.rack))}))
        if regions and regions != self._regions.get(cluster.cluster_id, cluster.regions):
            await self._inventory.found_regions(cluster.cluster_id, regions)
        self._regions[cluster.cluster_id] = regions
        return True

    def _tell(self, document: TopologyDocument) -> None:
        lags = [flow.model_dump(mode="json") for flow in document.flows]
        if lags:
            self._hub.publish(EventKind.LAG, {"at_ms": document.at_ms, "flows": lags})
        if self._last is None or _shape(document) != _shape(self._last):
            self._hub.publish(EventKind.TOPOLOGY, document.model_dump(mode="json"))
        self._last = document


def _shape(document: TopologyDocument) -> object:
    """All of it but what changes every moment."""
    clusters = [cluster.model_copy(update={"seen_ms": 0}) for cluster in document.clusters]
    still = {"lag_ms": 0, "lag_records": 0, "copies": 0}
    return document.regions, clusters, [flow.model_copy(update=still) for flow in document.flows]


async def _seen(client: Client, kind: ClusterKind, now_ms: int) -> ClusterSeen:
    described = await _in_a_moment(lambda: cluster_admin.describe(client))
    topics = await _in_a_moment(lambda: topic_admin.list_topics(client))
    if kind is not ClusterKind.ISTHMUS:
        return ClusterSeen(state=ClusterState.UP, seen_ms=now_ms, described=described, topics=topics)
    links = await _in_a_moment(lambda: link_admin.describe_links(client))
    return ClusterSeen(
        state=ClusterState.UP,
        seen_ms=now_ms,
        described=described,
        topics=topics,
        replicas=await _replicas(client, topics),
        links=[
            LinkSeen(link.name, link.source_cluster_id, link.state, link.link_error_message, len(link.mirror_topics))
            for link in links
        ],
    )


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


async def _replicas(client: Client, topics: Mapping[str, Topic]) -> dict[TopicPartition, PartitionStatus]:
    """What the leaders say that answer in a moment; the others' partitions are left out."""
    shares: dict[int, list[TopicPartition]] = {}
    for number, (partition, leader) in enumerate(_led(topics)):
        if number == STATUS_PARTITIONS_MAX:
            break
        shares.setdefault(leader, []).append(partition)

    async def ask(share: list[TopicPartition]) -> dict[TopicPartition, PartitionStatus]:
        try:
            async with asyncio.timeout(_MOMENT_SECONDS):
                told = await replica_status(client, share)
        except (TimeoutError, ClientError):
            return {}
        return {partition: status for partition, status in told.items() if isinstance(status, PartitionStatus)}

    found: dict[TopicPartition, PartitionStatus] = {}
    for answer in await asyncio.gather(*(ask(share) for share in shares.values())):
        found |= answer
    return found


def _led(topics: Mapping[str, Topic]) -> Iterator[tuple[TopicPartition, int]]:
    for topic in topics.values():
        for partition in topic.partitions.values():
            if partition.leader >= 0:
                yield TopicPartition(topic.name, partition.index), partition.leader
