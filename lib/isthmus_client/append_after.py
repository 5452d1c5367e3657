"""Append batches behind a known last batch of a partition: several batches per request, several requests in flight.

Only Isthmus brokers support it (`supports_append_after`). Nothing is retried here: the caller decides what to do about an unexpected log
end, a new leader or a lost response.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import DecodeError, ErrorCode
from isthmus_wire.extensions.append_after import (
    AppendAfterResponse,
    Following,
    FollowingOfTopic,
    encode_after_request,
)
from isthmus_wire.messages import decode_response

from isthmus_client.client import Client
from isthmus_client.connection import Chunk
from isthmus_client.errors import ClientError, ProtocolBroken, Refused
from isthmus_client.limits import PRODUCE_TIMEOUT_MS, REQUEST_SECONDS
from isthmus_client.metadata import TopicPartition, by_topic

LANE: Final = "append"


class BatchesAfter(NamedTuple):
    """Batches in the sequence of one producer, and what they are to stand behind."""

    after_offset: int
    after_crc: int
    batches: Sequence[Chunk]


async def supports_append_after(client: Client, broker: int, *, lane: str = LANE) -> bool:
    """Whether the broker knows such appends; raises ClientError when it cannot be asked."""
    return (await client.connection(broker, lane)).versions.supports(ApiKey.APPEND_AFTER)


async def append_after(
    client: Client,
    broker: int,
    wanted: Mapping[TopicPartition, BatchesAfter],
    *,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    lane: str = LANE,
) -> dict[TopicPartition, Refused | None]:
    """One request to the broker that leads all of these; None for what every in-sync replica has.

    Raises ClientError when it cannot be asked. Topics must be known to the client: their ids keep batches out of a topic made anew.
    """
    view = client.view
    topics = [
        FollowingOfTopic(
            topic,
            known.topic_id if (known := view.topics.get(topic)) is not None else None,
            [Following(i, *wanted[TopicPartition(topic, i)]) for i in indexes],
        )
        for topic, indexes in by_topic(wanted).items()
    ]
    try:
        connection = await client.connection(broker, lane)
        version = connection.versions.choose(ApiKey.APPEND_AFTER)
        body = encode_after_request(timeout_ms, topics)
        frame, start = await connection.exchange(
            ApiKey.APPEND_AFTER, version, body, seconds=REQUEST_SECONDS + timeout_ms / 1000
        )
        response: AppendAfterResponse = decode_response(ApiKey.APPEND_AFTER, version, frame, start)
    except DecodeError as error:
        raise ProtocolBroken(f"broker {broker} answered an append with bytes that do not parse: {error}") from error
    except ClientError as error:
        client.invalidate(error)
        raise
    found: dict[TopicPartition, Refused | None] = {}
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.index)
            refused = None
            if told.error_code is not ErrorCode.none:
                refused = Refused(told.error_code, f"partition {partition}", told.error_message)
                client.invalidate(refused)
            found[partition] = refused
    return found
