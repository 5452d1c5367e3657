"""What a flow tells in MirrorMaker's bytes beside checkpoints: heartbeats, and syncs of offsets."""

import time
from collections.abc import Iterable

from isthmus_client.client import Client
from isthmus_client.producer import Producer

from isthmus_mirror.core.naming import HEARTBEATS
from isthmus_mirror.core.progress import Place
from isthmus_mirror.core.records import heartbeat, offset_sync
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.progress_log import make_compacted
from isthmus_mirror.edge.targets import Target


class Heartbeats:
    """Of one flow, into its target: what comes back from there over other flows is how they are seen to be alive."""

    def __init__(self, settings: FlowSettings, target: Client) -> None:
        self._settings = settings
        self._target = target
        self._producer = Producer(target)
        self._made = False

    async def beat(self) -> None:
        """Raises ClientError."""
        if not self._made:
            await make_compacted(self._target, HEARTBEATS, self._settings.heartbeats_replication_factor)
            self._made = True
        key, value = heartbeat(self._settings.source, self._settings.target, int(time.time() * 1000))
        delivery = await self._producer.send(HEARTBEATS, value, key=key, partition=0)
        await delivery.place()


class OffsetSyncs:
    """Of one flow. Each tells one record's offset on both sides; how often is for MirrorMaker's readers, our own map needs none."""

    def __init__(self, settings: FlowSettings, source: Client, target: Client) -> None:
        naming, at_source = settings.naming, settings.offset_syncs_at_source
        self._settings = settings
        self._topic = naming.offset_syncs_at_source if at_source else naming.offset_syncs_at_target
        self._client = source if at_source else target
        self._producer = Producer(self._client)
        self._told: dict[Place, tuple[int, int]] = {}
        self._made = False

    async def emit(self, targets: Iterable[Target], *, everything: bool) -> None:
        """Those that are due: the first, after a gap, after enough records, and with `everything` all that are news."""
        for target in targets:
            if target.copy.last is None:
                continue
            upstream, downstream, _ = target.copy.last
            if self._is_due(target.wanted.place, upstream, downstream, everything=everything):
                await self._send(target.wanted.place, upstream, downstream)

    def _is_due(self, place: Place, upstream: int, downstream: int, *, everything: bool) -> bool:
        told = self._told.get(place)
        if told is None or downstream < told[1] or upstream - downstream != told[0] - told[1]:
            return True
        behind = downstream - (told[1] + 1)
        return behind >= self._settings.offset_lag_max or (everything and behind >= 0)

    async def _send(self, place: Place, upstream: int, downstream: int) -> None:
        if not self._made:
            await make_compacted(self._client, self._topic, self._settings.syncs_replication_factor)
            self._made = True
        key, value = offset_sync(place, upstream, downstream)
        delivery = await self._producer.send(self._topic, value, key=key, partition=0)
        await delivery.place()
        self._told[place] = (upstream, downstream)
