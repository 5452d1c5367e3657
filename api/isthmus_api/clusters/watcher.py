"""Polls every registered cluster, so that the map is available immediately, also while a cluster is unreachable."""

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
from isthmus_api.clusters.poll import poll
from isthmus_api.clusters.probes import Probes
from isthmus_api.core.cluster_state import ClusterSnapshot, ClusterState
from isthmus_api.core.inventory import RegisteredCluster
from isthmus_api.core.lag_series import Ring
from isthmus_api.core.topology import TopologyDocument, topology
from isthmus_api.events import EventKind, Hub
from isthmus_api.limits import WATCH_PACE_SECONDS, WATCH_SECONDS, WATCH_TIMEOUT_SECONDS
from isthmus_api.problems import Problem
from isthmus_api.store.inventory import Inventory

logger = logging.getLogger(__name__)

# Polling may take this fraction of the time: a cluster with many partitions is polled less often.
_SHARE: Final = 5
_FAILURES: Final = 2
"""Failed polls in a row after which a cluster is unreachable although some broker responds to its probes."""
_KEEP_MS: Final = 10 * 60 * 1000


class Watch:
    """Keeps the latest snapshot of every cluster and publishes changes."""

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
        self._snapshots: dict[str, ClusterSnapshot] = {}
        self._regions: dict[str, tuple[str, ...]] = {}
        self._last: TopologyDocument | None = None
        self._changed_event = asyncio.Event()
        self._wakes: dict[str, asyncio.Event] = {}
        probes.on_change.append(self._changed)

    def controller(self, cluster_id: str) -> int | None:
        """The controller of a cluster, while that broker is reachable."""
        snapshot = self._snapshots.get(cluster_id, ClusterSnapshot())
        if snapshot.described is None or snapshot.state is not ClusterState.UP:
            return None
        reachable = {one.node_id for one in snapshot.described.brokers if not self._probes.is_unreachable(one.endpoint)}
        controller = snapshot.described.controller_id
        return controller if controller in reachable else None

    async def document(self) -> TopologyDocument:
        """The topology from the latest snapshots."""
        regions, clusters = await self._inventory.regions(), await self._inventory.clusters()
        now = self._now_ms()
        return topology(
            now, regions, clusters, self._snapshots, self._ring.latest(now - _KEEP_MS), self._probes.unreachable
        )

    async def run(self) -> None:
        """Poll each cluster at its own interval and publish changes; changes of a broker's reachability are published immediately."""
        pollers: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                registered = {cluster.cluster_id: cluster for cluster in await self._inventory.clusters()}
                for cluster_id in pollers.keys() - registered.keys():
                    pollers.pop(cluster_id).cancel()
                    self._snapshots.pop(cluster_id, None)
                    self._probes.watch(cluster_id, ())
                for cluster_id, cluster in registered.items():
                    self._probe(cluster)
                    if cluster_id not in pollers:
                        pollers[cluster_id] = asyncio.create_task(self._poll_repeatedly(cluster))
                for poller in pollers.values():
                    if poller.done():
                        poller.result()  # only an error ends a poller; it ends this loop too
                self._changed_event.clear()
                self._publish(await self.document())
                await _within(WATCH_SECONDS, self._changed_event)
        finally:
            for poller in pollers.values():
                poller.cancel()

    def _probe(self, cluster: RegisteredCluster) -> None:
        addresses = set(parse_bootstrap(cluster.bootstrap_servers))
        described = self._snapshots.get(cluster.cluster_id, ClusterSnapshot()).described
        if described is not None:
            addresses |= {broker.endpoint for broker in described.brokers}
        self._probes.watch(cluster.cluster_id, addresses)

    def _changed(self, _: Endpoint) -> None:
        """Publish the change now, and poll for its consequences."""
        self._changed_event.set()
        for wake in self._wakes.values():
            wake.set()

    async def _poll_repeatedly(self, cluster: RegisteredCluster) -> None:
        loop = asyncio.get_running_loop()
        wake = self._wakes[cluster.cluster_id] = asyncio.Event()
        try:
            while True:
                wake.clear()
                started = loop.time()
                responded = await self._poll(cluster)
                pace = (loop.time() - started) * _SHARE if responded else 0
                await _within(max(WATCH_SECONDS, min(pace, WATCH_PACE_SECONDS)), wake)
        finally:
            del self._wakes[cluster.cluster_id]

    async def _poll(self, cluster: RegisteredCluster) -> bool:
        """Whether the cluster responded."""
        before = self._snapshots.get(cluster.cluster_id, ClusterSnapshot())
        try:
            async with self._clusters.use(cluster.cluster_id, WATCH_TIMEOUT_SECONDS) as client:
                snapshot = await poll(client, cluster.kind, before, self._now_ms, self._probes.is_unreachable)
        except Problem as problem:
            self._snapshots[cluster.cluster_id] = _missed(before, problem.message)
            if self._snapshots[cluster.cluster_id].state is not before.state:
                logger.warning("cluster %s is unreachable: %s", cluster.name, problem.message)
            return False
        if before.state is ClusterState.UNREACHABLE:
            logger.info("cluster %s is reachable again", cluster.name)
        self._snapshots[cluster.cluster_id] = snapshot
        assert snapshot.described is not None
        regions = tuple(sorted({region for broker in snapshot.described.brokers if (region := region_of(broker.rack))}))
        if regions and regions != self._regions.get(cluster.cluster_id, cluster.regions):
            await self._inventory.update_regions(cluster.cluster_id, regions)
        self._regions[cluster.cluster_id] = regions
        return True

    def _publish(self, document: TopologyDocument) -> None:
        lags = [flow.model_dump(mode="json") for flow in document.flows]
        self._hub.publish(EventKind.LAG, {"at_ms": document.at_ms, "flows": lags})
        if self._last is None or _shape(document) != _shape(self._last):
            self._hub.publish(EventKind.TOPOLOGY, document.model_dump(mode="json"))
        self._last = document


def _missed(before: ClusterSnapshot, why: str) -> ClusterSnapshot:
    """A single poll may have met brokers that were just going down; the next one queries those that are left."""
    failed = before.failed + 1
    is_unreachable = before.described is None or failed >= _FAILURES
    return replace(
        before, state=ClusterState.UNREACHABLE if is_unreachable else before.state, message=why, failed=failed
    )


async def _within(seconds: float, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _shape(document: TopologyDocument) -> object:
    """The document without what changes all the time."""
    clusters = [cluster.model_copy(update={"updated_ms": 0}) for cluster in document.clusters]
    still = {"lag_ms": 0, "lag_records": 0, "copies": 0, "last_update_ms": 0}
    return document.regions, clusters, [flow.model_copy(update=still) for flow in document.flows]
