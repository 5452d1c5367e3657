"""The destination's side of a link, as a worker uses it: batches of the source in, as bytes, and how far the copy is.

An append is not tried again here: it names the offset where the log must end, and what to do about another end, a moved leader or a lost
answer is for its caller to decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.extensions.append_mirrored import PartitionAppend, TopicAppend, encode_append_request
from isthmus_wire.extensions.mirrors import (
    AppendedPartition,
    AppendMirroredResponse,
    DescribeMirrorProgressRequest,
    PartitionProgress,
    ProgressOfTopic,
)
from isthmus_wire.messages import decode_response

from isthmus_client.client import Client
from isthmus_client.connection import Chunk, Connection
from isthmus_client.errors import ClientError, ProtocolBroken, Refused
from isthmus_client.limits import PRODUCE_TIMEOUT_MS, REQUEST_SECONDS
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.requests_by_broker import by_leader

APPEND_LANE: Final = "append"
UNKNOWN: Final = -1


class Batches(NamedTuple):
    """Whole batches of the source for one partition, or none when there is only news of the source."""

    expected_end: int
    records: Chunk | None = None
    source_high_watermark: int = UNKNOWN
    source_leader_epoch: int = UNKNOWN
    start_offset: int = UNKNOWN
    """Where an empty log may begin instead; -1 where it already is."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What the leader answered: where its log is now, and why nothing was appended, if so."""

    log_start: int
    log_end: int
    last_epoch: int
    refused: Refused | None = None


async def append_to(
    client: Client,
    broker: int,
    link_id: UUID,
    wanted: Mapping[TopicPartition, Batches],
    *,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    lane: str = APPEND_LANE,
) -> dict[TopicPartition, LogEnd]:
    """One request to the broker that leads all of these; raises ClientError when it cannot be asked.

    Topics must be known to the client: their ids keep batches out of a topic made anew.
    """
    view = client.view
    topics = [
        TopicAppend(
            topic,
            known.topic_id if (known := view.topics.get(topic)) is not None else None,
            [_partition(i, wanted[TopicPartition(topic, i)]) for i in indexes],
        )
        for topic, indexes in by_topic(wanted).items()
    ]
    body = encode_append_request(link_id, timeout_ms, topics)
    try:
        connection = await client.connection(broker, lane)
        version = connection.versions.choose(ApiKey.APPEND_MIRRORED)
        frame, start = await connection.exchange(
            ApiKey.APPEND_MIRRORED, version, body, seconds=REQUEST_SECONDS + timeout_ms / 1000
        )
        response: AppendMirroredResponse = decode_response(ApiKey.APPEND_MIRRORED, version, frame, start)
    except DecodeError as error:
        raise ProtocolBroken(f"broker {broker} answered an append with bytes that do not parse: {error}") from error
    except ClientError as error:
        client.invalidate(error)
        raise
    return {
        (partition := TopicPartition(topic.name, told.index)): _end(client, partition, told)
        for topic in response.topics
        for told in topic.partitions
    }


def _partition(index: int, batches: Batches) -> PartitionAppend:
    return PartitionAppend(
        index,
        batches.expected_end,
        batches.start_offset,
        batches.source_leader_epoch,
        batches.source_high_watermark,
        batches.records,
    )


def _end(client: Client, partition: TopicPartition, told: AppendedPartition) -> LogEnd:
    refused = None
    if told.error_code is not ErrorCode.none:
        refused = Refused(told.error_code, f"partition {partition}", told.error_message)
        if refused.code is not ErrorCode.fenced_leader_epoch:  # here it speaks of the source's epoch, not of our view
            client.invalidate(refused)
    return LogEnd(told.log_start_offset, told.log_end_offset, told.last_epoch, refused)


async def append_mirrored(
    client: Client, link_id: UUID, wanted: Mapping[TopicPartition, Batches], *, timeout_ms: int = PRODUCE_TIMEOUT_MS
) -> dict[TopicPartition, LogEnd | ClientError]:
    """One round of appends at all leaders."""
    found: dict[TopicPartition, LogEnd | ClientError] = {}
    shares: dict[int, dict[TopicPartition, Batches]] = {}
    for partition, leader in (await client.leaders(list(wanted))).items():
        if isinstance(leader, Refused):
            client.invalidate(leader)
            found[partition] = leader
        else:
            shares.setdefault(leader.node_id, {})[partition] = wanted[partition]

    async def send(broker: int, share: dict[TopicPartition, Batches]) -> None:
        try:
            found.update(await append_to(client, broker, link_id, share, timeout_ms=timeout_ms))
        except ClientError as error:
            found.update(dict.fromkeys(share, error))

    await asyncio.gather(*(send(broker, share) for broker, share in shares.items()))
    return found


async def progress(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionProgress | ClientError]:
    """Where each copy ends and how far its source was when a worker last told, asked of its leader until that answers."""

    async def send(
        connection: Connection, share: dict[TopicPartition, None]
    ) -> dict[TopicPartition, PartitionProgress | ClientError]:
        topics = tuple(ProgressOfTopic(name=topic, partitions=tuple(ids)) for topic, ids in by_topic(share).items())
        request = DescribeMirrorProgressRequest(topics=topics)
        response = await connection.request(ApiKey.DESCRIBE_MIRROR_PROGRESS, request)
        return {
            (partition := TopicPartition(topic.name, told.index)): told
            if told.error_code is ErrorCode.none
            else Refused(told.error_code, f"partition {partition}")
            for topic in response.topics
            for told in topic.partitions
        }

    return await by_leader(client, "describe mirror progress", dict.fromkeys(partitions), send)
