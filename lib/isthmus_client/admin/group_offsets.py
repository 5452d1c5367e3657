"""The committed offsets of groups: read, write, delete."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

from isthmus_client.client import Client
from isthmus_client.errors import Refused, check
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.retry import COORDINATOR_TROUBLE

# From this version on topics have ids instead of names; these functions take names.
_BY_ID_SINCE = 10
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset: the offset of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """As whom a group's offsets are committed in a transaction; without a member, the group must have none."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None


async def fetch(
    client: Client, group_id: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
) -> dict[TopicPartition, Committed]:
    """The group's offsets, for these partitions or all; partitions without one are omitted. Raises Refused."""
    topics = None
    if partitions is not None:
        topics = tuple(
            entity(OffsetFetchRequestTopic, name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in by_topic(partitions).items()
        )
    request = entity(
        OffsetFetchRequest,
        group_id=group_id,
        topics=topics,
        groups=(entity(OffsetFetchRequestGroup, group_id=group_id, topics=topics),),
        require_stable=require_stable,
    )

    def verify(response: Any) -> None:
        group = _group_part(response)
        check(group.error_code, f"group {group_id}")
        for topic in group.topics:
            for p in topic.partitions:
                check(p.error_code, f"offset of group {group_id} for partition {topic.name}-{p.partition_index}")

    response = await client.send_to_coordinator(
        group_id, ApiKey.OFFSET_FETCH, request, verify, at_most=_BY_ID_SINCE - 1
    )
    return {
        TopicPartition(topic.name, p.partition_index): Committed(
            p.committed_offset, p.committed_leader_epoch, p.metadata or None
        )
        for topic in _group_part(response).topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


def _group_part(response: Any) -> Any:
    """The group's part of the response; up to version 7 the response itself."""
    return response.groups[0] if response.groups else response


async def commit(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member_id: str = "",
    generation: int = NO_GENERATION,
) -> dict[TopicPartition, Refused | None]:
    """Commit offsets, as a member or, if the group has no members, without one. Returns None or the error of each."""
    request = entity(
        OffsetCommitRequest,
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=tuple(
            entity(
                OffsetCommitRequestTopic,
                name=topic,
                partitions=tuple(_commit_partition(index, offsets[TopicPartition(topic, index)]) for index in indexes),
            )
            for topic, indexes in by_topic(offsets).items()
        ),
    )

    def verify(response: Any) -> None:
        for _, code in _codes(response):
            if code in COORDINATOR_TROUBLE:
                raise Refused(code, f"offsets of group {group_id}")

    response = await client.send_to_coordinator(
        group_id, ApiKey.OFFSET_COMMIT, request, verify, at_most=_BY_ID_SINCE - 1
    )
    return {tp: _refusal(group_id, tp, code) for tp, code in _codes(response)}


def _commit_partition(index: int, offset: Committed) -> OffsetCommitRequestPartition:
    return entity(
        OffsetCommitRequestPartition,
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _codes(response: Any) -> list[tuple[TopicPartition, ErrorCode]]:
    return [
        (TopicPartition(topic.name, p.partition_index), p.error_code)
        for topic in response.topics
        for p in topic.partitions
    ]


def _refusal(group_id: str, partition: TopicPartition, code: ErrorCode) -> Refused | None:
    if code is ErrorCode.none:
        return None
    return Refused(code, f"offset of group {group_id} for partition {partition}")


async def delete(
    client: Client, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, Refused | None]:
    """Delete offsets of topics that the group is not subscribed to. Returns None or the error of each."""
    request = entity(
        OffsetDeleteRequest,
        group_id=group_id,
        topics=tuple(
            entity(
                OffsetDeleteRequestTopic,
                name=topic,
                partitions=tuple(entity(OffsetDeleteRequestPartition, partition_index=i) for i in indexes),
            )
            for topic, indexes in by_topic(partitions).items()
        ),
    )

    def verify(response: Any) -> None:
        check(response.error_code, f"group {group_id}")

    response = await client.send_to_coordinator(group_id, ApiKey.OFFSET_DELETE, request, verify)
    return {tp: _refusal(group_id, tp, code) for tp, code in _codes(response)}
