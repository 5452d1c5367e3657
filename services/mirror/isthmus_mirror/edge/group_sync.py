"""Groups of a flow: their offsets in the copies, as checkpoints in MirrorMaker's bytes, and committed in the target for groups at rest."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from isthmus_client.admin import group_offsets, groups
from isthmus_client.admin.group_offsets import Committed as TargetOffset
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer

from isthmus_mirror.core.group_offsets import Committed, offsets_to_write, translated
from isthmus_mirror.core.limits import GROUPS_AT_ONCE
from isthmus_mirror.core.progress import Place
from isthmus_mirror.core.records import Checkpoint, checkpoint_key, checkpoint_value
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.copier import FlowCopier
from isthmus_mirror.edge.destination_reads import extents
from isthmus_mirror.edge.progress_log import make_compacted

logger = logging.getLogger(__name__)

_HAVE_OFFSETS: Final = frozenset({groups.CLASSIC, groups.CONSUMER})
_AT_REST: Final = frozenset({"Empty", "Dead"})

Checkpoints = dict[str, dict[Place, Checkpoint]]
"""By group and by partition of the copy."""


class GroupSync:
    """Of one flow; a mirror tells of the partitions that it copies itself, for it has their maps."""

    def __init__(self, settings: FlowSettings, source: Client, target: Client, copier: FlowCopier) -> None:
        self.emitted: dict[tuple[str, Place], Checkpoint] = {}
        self._settings = settings
        self._source = source
        self._target = target
        self._copier = copier
        self._producer = Producer(target)
        self._made = False

    async def checkpoints(self) -> Checkpoints:
        """What every group's offsets are now in the copies; raises ClientError."""
        wanted = [
            listed.group_id
            for listed in await groups.list_groups(self._source)
            if listed.type.lower() in _HAVE_OFFSETS and self._settings.takes_group(listed.group_id)
        ]
        places = asyncio.Semaphore(GROUPS_AT_ONCE)

        async def translate(group: str) -> dict[Place, Checkpoint]:
            async with places:
                return self._translated(await group_offsets.fetch(self._source, group))

        found = await asyncio.gather(*(translate(group) for group in wanted))
        return {group: one for group, one in zip(wanted, found, strict=True) if one}

    def _translated(self, committed: Mapping[TopicPartition, TargetOffset]) -> dict[Place, Checkpoint]:
        found: dict[Place, Checkpoint] = {}
        for partition, at in committed.items():
            target = self._copier.targets.get(partition)
            if target is not None and target.copy.is_placed:
                found[Place(*target.wanted.target)] = translated(Committed(at.offset, at.metadata), target.copy.map)
        return found

    async def emit(self) -> None:
        """Checkpoints that are news; raises ClientError."""
        topic = self._settings.naming.checkpoints
        if not self._made:
            await make_compacted(self._target, topic, self._settings.checkpoints_replication_factor)
            self._made = True
        for group, found in (await self.checkpoints()).items():
            for place, checkpoint in found.items():
                if self.emitted.get((group, place)) == checkpoint:
                    continue
                key, value = checkpoint_key(group, place), checkpoint_value(checkpoint)
                delivery = await self._producer.send(topic, value, key=key, partition=0)
                await delivery.place()
                self.emitted[group, place] = checkpoint

    async def commit(self) -> None:
        """Offsets of groups that have no members in the target; raises ClientError."""
        found = await self.checkpoints()
        known = await groups.describe(self._target, list(found)) if found else {}
        for group, checkpoints in found.items():
            there = known[group]
            if isinstance(there, groups.Group) and there.state not in _AT_REST:
                continue
            try:
                await self._commit(group, checkpoints)
            except ClientError as error:
                logger.warning("%s: offsets of group %s: %s", self._settings.name, group, error)

    async def _commit(self, group: str, checkpoints: Mapping[Place, Checkpoint]) -> None:
        partitions = [TopicPartition(*place) for place in checkpoints]
        known = await group_offsets.fetch(self._target, group, partitions)
        starts = {
            Place(*partition): start for partition, (start, _) in (await extents(self._target, partitions)).items()
        }
        wanted = offsets_to_write(
            checkpoints, {Place(*partition): at.offset for partition, at in known.items()}, starts
        )
        if not wanted:
            return
        refused = await group_offsets.commit(
            self._target,
            group,
            {
                TopicPartition(*place): TargetOffset(at.downstream, -1, at.metadata or None)
                for place, at in wanted.items()
            },
        )
        for refusal in refused.values():
            if refusal is not None:
                logger.info("%s: %s", self._settings.name, refusal)
