"""The groups of a flow: write their translated offsets as MirrorMaker checkpoints, and commit them in the target for inactive groups."""

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
from isthmus_model.mirror_maker import Checkpoint, encode_checkpoint

from isthmus_mirror.core.group_offsets import Committed, Translation, offsets_to_write, translated
from isthmus_mirror.core.limits import GROUPS_AT_ONCE
from isthmus_mirror.core.partition import PartitionCopy
from isthmus_mirror.core.progress import Place
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.edge.destination_reads import extents
from isthmus_mirror.edge.progress_log import make_compacted
from isthmus_mirror.edge.targets import Target

logger = logging.getLogger(__name__)

_HAVE_OFFSETS: Final = frozenset({groups.CLASSIC, groups.CONSUMER})
_INACTIVE: Final = frozenset({"Empty", "Dead"})

Translations = dict[str, dict[Place, Translation]]
"""By group and by partition of the copy."""


class GroupSync:
    """The groups of one flow, for the partitions that this process copies: it has their offset maps."""

    def __init__(
        self,
        settings: FlowSettings,
        source: Client,
        target: Client,
        targets: Mapping[TopicPartition, Target[PartitionCopy]],
    ) -> None:
        self.emitted: dict[tuple[str, Place], Translation] = {}
        self._settings = settings
        self._source = source
        self._target = target
        self._targets = targets
        self._producer = Producer(target)
        self._topic_exists = False

    async def translations(self) -> Translations:
        """Translate every group's committed offsets; raises ClientError."""
        group_ids = [
            listed.group_id
            for listed in await groups.list_groups(self._source)
            if listed.type.lower() in _HAVE_OFFSETS and self._settings.takes_group(listed.group_id)
        ]
        slots = asyncio.Semaphore(GROUPS_AT_ONCE)

        async def translate(group: str) -> dict[Place, Translation]:
            async with slots:
                return self._translated(await group_offsets.fetch(self._source, group))

        translations = await asyncio.gather(*(translate(group) for group in group_ids))
        return {group: one for group, one in zip(group_ids, translations, strict=True) if one}

    def _translated(self, committed: Mapping[TopicPartition, TargetOffset]) -> dict[Place, Translation]:
        translations: dict[Place, Translation] = {}
        for partition, at in committed.items():
            target = self._targets.get(partition)
            if target is not None and target.copy.is_placed:
                translations[Place(*target.assignment.target)] = translated(
                    Committed(at.offset, at.metadata), target.copy.map, target.copy.map_back
                )
        return translations

    async def emit(self) -> None:
        """Write the checkpoints that changed; raises ClientError."""
        topic = self._settings.naming.checkpoints
        if not self._topic_exists:
            await make_compacted(self._target, topic, self._settings.checkpoints_replication_factor)
            self._topic_exists = True
        for group, translations in (await self.translations()).items():
            for place, translation in translations.items():
                if self.emitted.get((group, place)) == translation:
                    continue
                checkpoint = Checkpoint(group, place.topic, place.partition, *translation)
                key, value = encode_checkpoint(checkpoint)
                delivery = await self._producer.send(topic, value, key=key, partition=0)
                await delivery.place()
                self.emitted[group, place] = translation

    async def commit(self) -> None:
        """Commit the offsets of groups without members in the target; raises ClientError."""
        translations = await self.translations()
        described = await groups.describe(self._target, list(translations)) if translations else {}
        for group, offsets in translations.items():
            group_in_target = described[group]
            if isinstance(group_in_target, groups.Group) and group_in_target.state not in _INACTIVE:
                continue
            try:
                await self._commit(group, offsets)
            except ClientError as error:
                logger.warning("%s: offsets of group %s: %s", self._settings.name, group, error)

    async def _commit(self, group: str, translations: Mapping[Place, Translation]) -> None:
        partitions = [TopicPartition(*place) for place in translations]
        committed = await group_offsets.fetch(self._target, group, partitions)
        starts = {
            Place(*partition): start for partition, (start, _) in (await extents(self._target, partitions)).items()
        }
        writes = offsets_to_write(
            translations, {Place(*partition): at.offset for partition, at in committed.items()}, starts
        )
        if not writes:
            return
        refused = await group_offsets.commit(
            self._target,
            group,
            {
                TopicPartition(*place): TargetOffset(at.downstream, -1, at.metadata or None)
                for place, at in writes.items()
            },
        )
        for refusal in refused.values():
            if refusal is not None:
                logger.info("%s: %s", self._settings.name, refusal)
