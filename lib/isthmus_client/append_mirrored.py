"""The destination's side of a link, for workers: append batches of the source as bytes, and query the progress of copies.

Appends are not retried here: each names the expected log end offset, and the caller decides what to do about another one, a new leader or a
lost response.
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
    """Whole batches of the source for one partition, or only the source's newest high watermark."""

    expected_end: int
    records: Chunk | None = None
    source_high_watermark: int = UNKNOWN
    source_leader_epoch: int = UNKNOWN
    start_offset: int = UNKNOWN
    """The start offset for an empty log; -1 to keep its own."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The leader's response: the bounds of its log, and the error if nothing was appended."""

    log_start: int
    log_end: int
    last_epoch: int
    refused: Refused | None = None


async def append_to(
    client: Client,
    broker: int,
    link_id: UUID,
    appends: Mapping[TopicPartition, Batches],
    *,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    lane: str = APPEND_LANE,
) -> dict[TopicPartition, LogEnd]:
    """Send one request to the leader of all of these; raises ClientError if the broker cannot be reached.

    The client must have the topics' metadata: the ids protect a recreated topic.
    """
    view = client.view
    topics = [
        TopicAppend(
            topic,
            metadata.topic_id if (metadata := view.topics.get(topic)) is not None else None,
            [_partition(i, appends[TopicPartition(topic, i)]) for i in indexes],
        )
        for topic, indexes in by_topic(appends).items()
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
        raise ProtocolBroken(f"broker {broker} sent a malformed response to AppendMirrored: {error}") from error
    except ClientError as error:
        client.invalidate(error)
        raise
    return {
        (partition := TopicPartition(topic.name, result.index)): _end(client, partition, result)
        for topic in response.topics
        for result in topic.partitions
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


def _end(client: Client, partition: TopicPartition, result: AppendedPartition) -> LogEnd:
    refused = None
    if result.error_code is not ErrorCode.none:
        refused = Refused(result.error_code, f"partition {partition}", result.error_message)
        if (
            refused.code is not ErrorCode.fenced_leader_epoch
        ):  # here the epoch is the source's, not that of our metadata
            client.invalidate(refused)
    return LogEnd(result.log_start_offset, result.log_end_offset, result.last_epoch, refused)


async def append_mirrored(
    client: Client, link_id: UUID, appends: Mapping[TopicPartition, Batches], *, timeout_ms: int = PRODUCE_TIMEOUT_MS
) -> dict[TopicPartition, LogEnd | ClientError]:
    """Send one round of appends to all leaders."""
    outcomes: dict[TopicPartition, LogEnd | ClientError] = {}
    shares: dict[int, dict[TopicPartition, Batches]] = {}
    for partition, leader in (await client.leaders(list(appends))).items():
        if isinstance(leader, Refused):
            client.invalidate(leader)
            outcomes[partition] = leader
        else:
            shares.setdefault(leader.node_id, {})[partition] = appends[partition]

    async def send(broker: int, share: dict[TopicPartition, Batches]) -> None:
        try:
            outcomes.update(await append_to(client, broker, link_id, share, timeout_ms=timeout_ms))
        except ClientError as error:
            outcomes.update(dict.fromkeys(share, error))

    await asyncio.gather(*(send(broker, share) for broker, share in shares.items()))
    return outcomes


async def progress(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionProgress | ClientError]:
    """The log end offset of each copy and its source's last reported position, from its leader; retried until it responds."""

    async def send(
        connection: Connection, share: dict[TopicPartition, None]
    ) -> dict[TopicPartition, PartitionProgress | ClientError]:
        topics = tuple(ProgressOfTopic(name=topic, partitions=tuple(ids)) for topic, ids in by_topic(share).items())
        request = DescribeMirrorProgressRequest(topics=topics)
        response = await connection.request(ApiKey.DESCRIBE_MIRROR_PROGRESS, request)
        return {
            (partition := TopicPartition(topic.name, result.index)): result
            if result.error_code is ErrorCode.none
            else Refused(result.error_code, f"partition {partition}")
            for topic in response.topics
            for result in topic.partitions
        }

    return await by_leader(client, "describe mirror progress", dict.fromkeys(partitions), send)
