"""Offsets of partitions: the earliest, the latest, the first at or after a timestamp, and others."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, Refused
from isthmus_client.limits import REQUEST_SECONDS
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.requests_by_broker import by_leader


class At(IntEnum):
    """Special timestamps; any other, in milliseconds, means the first record at or after it."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The versions that brought the special timestamps: KIP-734, KIP-405, KIP-1005, KIP-1023.
_SINCE = {At.MAX_TIMESTAMP: 7, At.EARLIEST_LOCAL: 8, At.LATEST_TIERED: 9, At.EARLIEST_PENDING_UPLOAD: 11}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset; -1 if there is no such record."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    client: Client, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset | ClientError]:
    """Look up each partition's offset at a timestamp or an `At`; with read_committed, the latest is the last stable offset."""

    async def send(
        connection: Connection, share: dict[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | ClientError]:
        request = entity(
            ListOffsetsRequest,
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=tuple(
                entity(
                    ListOffsetsTopic,
                    name=topic,
                    partitions=tuple(
                        entity(ListOffsetsPartition, partition_index=i, timestamp=share[TopicPartition(topic, i)])
                        for i in indexes
                    ),
                )
                for topic, indexes in by_topic(share).items()
            ),
            timeout=millis(int(REQUEST_SECONDS * 1000)),
        )
        at_least = max((_SINCE.get(At(at), 0) for at in share.values() if at < 0), default=0)
        response = await connection.request(ApiKey.LIST_OFFSETS, request, at_least=at_least)
        return {
            (tp := TopicPartition(topic.name, p.partition_index)): ListedOffset(p.offset, p.timestamp, p.leader_epoch)
            if p.error_code is ErrorCode.none
            else Refused(p.error_code, f"partition {tp}")
            for topic in response.topics
            for p in topic.partitions
        }

    return await by_leader(client, "list offsets", timestamps, send)
