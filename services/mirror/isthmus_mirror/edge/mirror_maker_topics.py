"""MirrorMaker's records besides checkpoints: heartbeats and offset syncs."""

from collections.abc import Iterable

from isthmus_client.client import Client
from isthmus_client.clock import wall_ms
from isthmus_client.producer import Producer
from isthmus_model.mirror_maker import Heartbeat, OffsetSync, encode_heartbeat, encode_offset_sync

from isthmus_mirror.core.naming import HEARTBEATS
from isthmus_mirror.core.partition import PartitionCopy
from isthmus_mirror.core.progress import Place
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.progress_log import make_compacted
from isthmus_mirror.edge.targets import Target


class Heartbeats:
    """The heartbeats of one flow, written to its target; other flows copy them, which shows that they work."""

    def __init__(self, settings: FlowSettings, target: Client) -> None:
        self._settings = settings
        self._target = target
        self._producer = Producer(target)
        self._topic_exists = False

    async def beat(self) -> None:
        """Write one heartbeat; raises ClientError."""
        if not self._topic_exists:
            await make_compacted(self._target, HEARTBEATS, self._settings.heartbeats_replication_factor)
            self._topic_exists = True
        key, value = encode_heartbeat(Heartbeat(self._settings.source, self._settings.target, wall_ms()))
        delivery = await self._producer.send(HEARTBEATS, value, key=key, partition=0)
        await delivery.place()


class OffsetSyncs:
    """The offset syncs of one flow: one record's offset on both sides. MirrorMaker's tools read them; our own offset map does not."""

    def __init__(self, settings: FlowSettings, source: Client, target: Client) -> None:
        naming, at_source = settings.naming, settings.offset_syncs_at_source
        self._settings = settings
        self._topic = naming.offset_syncs_at_source if at_source else naming.offset_syncs_at_target
        self._client = source if at_source else target
        self._producer = Producer(self._client)
        self._written: dict[Place, tuple[int, int]] = {}
        self._topic_exists = False

    async def emit(self, targets: Iterable[Target[PartitionCopy]], *, everything: bool) -> None:
        """Write those that are due: the first, after a gap, after enough records, and with `everything` all that changed."""
        for target in targets:
            if target.copy.last is None:
                continue
            upstream, downstream, _ = target.copy.last
            if self._is_due(target.assignment.place, upstream, downstream, everything=everything):
                await self._send(target.assignment.place, upstream, downstream)

    def _is_due(self, place: Place, upstream: int, downstream: int, *, everything: bool) -> bool:
        last = self._written.get(place)
        if last is None or downstream < last[1] or upstream - downstream != last[0] - last[1]:
            return True
        behind = downstream - (last[1] + 1)
        return behind >= self._settings.offset_lag_max or (everything and behind >= 0)

    async def _send(self, place: Place, upstream: int, downstream: int) -> None:
        if not self._topic_exists:
            await make_compacted(self._client, self._topic, self._settings.syncs_replication_factor)
            self._topic_exists = True
        key, value = encode_offset_sync(OffsetSync(place.topic, place.partition, upstream, downstream))
        delivery = await self._producer.send(self._topic, value, key=key, partition=0)
        await delivery.place()
        self._written[place] = (upstream, downstream)
