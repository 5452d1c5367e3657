"""Looks at every registered cluster again and again, so that the map can be shown at once, also while a cluster does not answer."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

from isthmus_model.clocks import WallClock
from isthmus_model.endpoints import Endpoint, parse_bootstrap
from isthmus_model.regions import region_of

from isthmus_api.clusters.clients import Clusters
from isthmus_api.clusters.poll import look
from isthmus_api.clusters.probes import Probes
from isthmus_api.core.cluster_state import ClusterSeen, ClusterState
from isthmus_api.core.lag_series import Ring
from isthmus_api.events import EventKind, Hub
from isthmus_api.limits import WATCH_PACE_SECONDS, WATCH_SECONDS, WATCH_TIMEOUT_SECONDS
from isthmus_api.problems import Problem
from isthmus_api.store.inventory import Inventory, RegisteredCluster
from isthmus_api.topology import TopologyDocument, topology

logger = logging.getLogger(__name__)

# Looking may take this part of the time, no more: a cluster of many partitions is looked at less often.
_SHARE: Final = 5
_LOOKS: Final = 2
"""Looks in a row that fail before a cluster is away of which some broker answers its probes."""
_KEEP_MS: Final = 10 * 60 * 1000


class Watch:
    """What was seen, and the news of it."""

    def __init__(
        self,
        inventory: Inventory,
        clusters: Clusters,
        probes: Probes,
        ring: Ring,
        hub: Hub,
        now_ms: WallClock,
    ) -> None:
        self._inventory = inventory
        self._clusters = clusters
        self._probes = probes
        self._ring = ring
        self._hub = hub
        self._now_ms = now_ms
        self._seen: dict[str, ClusterSeen] = {}
        self._regions: dict[str, tuple[str, ...]] = {}
        self._last: TopologyDocument | None = None
        self._news = asyncio.Event()
        self._wakes: dict[str, asyncio.Event] = {}
        probes.on_change.append(self._changed)

    def controller(self, cluster_id: str) -> int | None:
        """The controller of a cluster, as long as that broker answers."""
        seen = self._seen.get(cluster_id, ClusterSeen())
        if seen.described is None or seen.state is not ClusterState.UP:
            return None
        there = {one.node_id for one in seen.described.brokers if not self._probes.is_away(one.endpoint)}
        return seen.described.controller_id if seen.described.controller_id in there else None

    async def document(self) -> TopologyDocument:
        """The topology as it is known now."""
        regions, clusters = await self._inventory.regions(), await self._inventory.clusters()
        now = self._now_ms()
        return topology(now, regions, clusters, self._seen, self._ring.latest(now - _KEEP_MS), self._probes.away)

    async def run(self) -> None:
        """For ever: every cluster is looked at at its own pace, and what is new is told; who goes or comes back, at once."""
        lookers: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                wanted = {cluster.cluster_id: cluster for cluster in await self._inventory.clusters()}
                for cluster_id in lookers.keys() - wanted.keys():
                    lookers.pop(cluster_id).cancel()
                    self._seen.pop(cluster_id, None)
                    self._probes.watch(cluster_id, ())
                for cluster_id, cluster in wanted.items():
                    self._probe(cluster)
                    if cluster_id not in lookers:
                        lookers[cluster_id] = asyncio.create_task(self._look_again(cluster))
                for looker in lookers.values():
                    if looker.done():
                        looker.result()  # a looker does not end: whatever ended it ends this loop as well
                self._news.clear()
                self._tell(await self.document())
                await _within(WATCH_SECONDS, self._news)
        finally:
            for looker in lookers.values():
                looker.cancel()

    def _probe(self, cluster: RegisteredCluster) -> None:
        addresses = set(parse_bootstrap(cluster.bootstrap_servers))
        described = self._seen.get(cluster.cluster_id, ClusterSeen()).described
        if described is not None:
            addresses |= {broker.endpoint for broker in described.brokers}
        self._probes.watch(cluster.cluster_id, addresses)

    def _changed(self, _: Endpoint) -> None:
        """A broker went or came back: that is told now, and what else has come of it is looked for."""
        self._news.set()
        for wake in self._wakes.values():
            wake.set()

    async def _look_again(self, cluster: RegisteredCluster) -> None:
        loop = asyncio.get_running_loop()
        wake = self._wakes[cluster.cluster_id] = asyncio.Event()
        try:
            while True:
                wake.clear()
                started = loop.time()
                answered = await self._look(cluster)
                pace = (loop.time() - started) * _SHARE if answered else 0
                await _within(max(WATCH_SECONDS, min(pace, WATCH_PACE_SECONDS)), wake)
        finally:
            del self._wakes[cluster.cluster_id]

    async def _look(self, cluster: RegisteredCluster) -> bool:
        """Whether it answered."""
        before = self._seen.get(cluster.cluster_id, ClusterSeen())
        try:
            async with self._clusters.use(cluster.cluster_id, WATCH_TIMEOUT_SECONDS) as client:
                seen = await look(client, cluster.kind, before, self._now_ms, self._probes.is_away)
        except Problem as problem:
            self._seen[cluster.cluster_id] = _missed(before, problem.message)
            if self._seen[cluster.cluster_id].state is not before.state:
                logger.warning("cluster %s is away: %s", cluster.name, problem.message)
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
        self._hub.publish(EventKind.LAG, {"at_ms": document.at_ms, "flows": lags})
        if self._last is None or _shape(document) != _shape(self._last):
            self._hub.publish(EventKind.TOPOLOGY, document.model_dump(mode="json"))
        self._last = document


def _missed(before: ClusterSeen, why: str) -> ClusterSeen:
    """One look may have met the brokers that went just then: those that stay are asked the next time."""
    failed = before.failed + 1
    is_away = before.described is None or failed >= _LOOKS
    return replace(before, state=ClusterState.AWAY if is_away else before.state, message=why, failed=failed)


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _shape(document: TopologyDocument) -> object:
    """All of it but what changes every moment."""
    clusters = [cluster.model_copy(update={"seen_ms": 0}) for cluster in document.clusters]
    still = {"lag_ms": 0, "lag_records": 0, "copies": 0, "heard_ms": 0}
    return document.regions, clusters, [flow.model_copy(update=still) for flow in document.flows]
