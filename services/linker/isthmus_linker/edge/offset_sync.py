"""Sync committed offsets of the source's groups to the destination, for groups that are inactive there."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from isthmus_client.admin import group_offsets, groups
from isthmus_client.admin.group_offsets import Committed
from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_wire.errors import ErrorCode

from isthmus_linker.core.group_offsets import Extent, Position, offsets_to_write
from isthmus_linker.core.limits import GROUPS_AT_ONCE
from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.edge.outcome import FINE, Outcome

logger = logging.getLogger(__name__)

_IN_USE: Final = "CONSUMER_GROUP_IN_USE_ERROR"
_REFUSED: Final = "INTERNAL_ERROR"
_HAVE_OFFSETS: Final = frozenset({groups.CLASSIC, groups.CONSUMER})
_ACTIVE: Final = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


async def sync_group_offsets(
    source: Client, destination: Client, settings: LinkSettings, mirrors: Mapping[str, str]
) -> Outcome:
    """Sync the offsets for these mirror topics, by source topic; raises ClientError if a cluster is unreachable."""
    group_ids = [
        listed.group_id
        for listed in await groups.list_groups(source)
        if listed.type.lower() in _HAVE_OFFSETS and settings.groups.includes(listed.group_id)
    ]
    if not group_ids or not mirrors:
        return FINE
    prefix = settings.prefix if settings.prefix_groups else ""
    described = await groups.describe(destination, [prefix + group_id for group_id in group_ids])
    in_use = {name for name, group in described.items() if isinstance(group, groups.Group) and group.state in _ACTIVE}
    slots = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def sync(group_id: str) -> ClientError | None:
        async with slots:
            try:
                return await _sync_group(source, destination, group_id, prefix + group_id, mirrors)
            except ClientError as error:
                return error

    failures = await asyncio.gather(*(sync(group_id) for group_id in group_ids if prefix + group_id not in in_use))
    return _outcome(sorted(in_use), [failure for failure in failures if failure is not None])


async def _sync_group(
    source: Client, destination: Client, group_id: str, target_id: str, mirrors: Mapping[str, str]
) -> ClientError | None:
    committed = {
        TopicPartition(mirrors[partition.topic], partition.partition): Position(at.offset, at.leader_epoch, at.metadata)
        for partition, at in (await group_offsets.fetch(source, group_id)).items()
        if partition.topic in mirrors
    }
    if not committed:
        return None
    current = {
        partition: Position(at.offset, at.leader_epoch, at.metadata)
        for partition, at in (await group_offsets.fetch(destination, target_id, committed.keys())).items()
    }
    offsets = {
        partition: Committed(*position)
        for partition, position in offsets_to_write(
            committed, current, await extents(destination, committed.keys())
        ).items()
    }
    if not offsets:
        return None
    refused = await group_offsets.commit(destination, target_id, offsets)
    return next((refusal for refusal in refused.values() if refusal is not None), None)


async def extents(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Extent]:
    """The range of offsets of each partition; omits partitions of unknown range."""
    earliest = await list_offsets(client, dict.fromkeys(partitions, At.EARLIEST))
    latest = await list_offsets(client, dict.fromkeys(partitions, At.LATEST))
    return {
        partition: Extent(start.offset, end.offset)
        for partition in partitions
        if isinstance(start := earliest[partition], ListedOffset) and isinstance(end := latest[partition], ListedOffset)
    }


def _outcome(in_use: list[str], failures: list[ClientError]) -> Outcome:
    """The outcome; a group that got a member meanwhile counts as in use."""
    others = [error for error in failures if not _is_in_use(error)]
    if others:
        return Outcome(_REFUSED, str(others[0]))
    if in_use or failures:
        names = ", ".join(in_use) or str(failures[0])
        return Outcome(_IN_USE, f"groups with members at the destination keep their own offsets: {names}")
    return FINE


def _is_in_use(error: ClientError) -> bool:
    return isinstance(error, Refused) and error.code in (ErrorCode.unknown_member_id, ErrorCode.non_empty_group)
