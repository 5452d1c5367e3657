"""Reads the lag samples of every registered cluster as they are written."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from isthmus_client.admin import topics as topic_admin
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.consumer import Consumer
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_client.requests_by_broker import results
from isthmus_model.clocks import WallClock
from isthmus_model.internal_topics import LAG_TOPIC
from isthmus_model.lag_samples import LagSample
from isthmus_wire.errors import WireError

from isthmus_api.clusters.clients import Clusters
from isthmus_api.core.lag_series import Ring
from isthmus_api.limits import LAG_WINDOW_MS, RETRY_SECONDS
from isthmus_api.problems import Problem
from isthmus_api.store.inventory import Inventory

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0


class LagFeed:
    """One reader for each cluster; reading is retried while a cluster is unreachable or has no samples."""

    def __init__(self, inventory: Inventory, clusters: Clusters, now_ms: WallClock) -> None:
        self.ring = Ring()
        self._inventory = inventory
        self._clusters = clusters
        self._now_ms = now_ms

    async def run(self) -> None:
        """Read until cancelled; readers start and stop with the registered clusters."""
        readers: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                registered = {cluster.cluster_id for cluster in await self._inventory.clusters()}
                for cluster_id in readers.keys() - registered:
                    readers.pop(cluster_id).cancel()
                for cluster_id in registered - readers.keys():
                    readers[cluster_id] = asyncio.create_task(self._read_repeatedly(cluster_id))
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            for reader in readers.values():
                reader.cancel()

    async def _read_repeatedly(self, cluster_id: str) -> None:
        while True:
            try:
                await self._read(cluster_id)
            except (ClientError, WireError, Problem, OSError) as error:
                logger.debug("no lag samples from cluster %s: %s", cluster_id, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read(self, cluster_id: str) -> None:
        client = await self._clusters.client(cluster_id)
        topic = (await topic_admin.describe(client, [LAG_TOPIC]))[LAG_TOPIC]
        partitions = [TopicPartition(LAG_TOPIC, index) for index in topic.partitions]
        since = dict.fromkeys(partitions, self._now_ms() - LAG_WINDOW_MS)
        offsets = results(await list_offsets(client, since))
        starts = {tp: at.offset if at.offset >= 0 else int(At.LATEST) for tp, at in offsets.items()}
        async with Consumer(client) as consumer:
            await consumer.assign(starts)
            while True:
                for consumed in await consumer.poll(_POLL_SECONDS):
                    with suppress(ValueError):  # records of other programs or later versions
                        self.ring.add(LagSample.parse(consumed.record.value))
