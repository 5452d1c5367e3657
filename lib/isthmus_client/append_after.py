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
    """Batches in the sequence of one producer, and the last batch before them."""

    after_offset: int
    after_crc: int
    batches: Sequence[Chunk]


async def supports_append_after(client: Client, broker: int, *, lane: str = LANE) -> bool:
    """Whether the broker supports AppendAfter; raises ClientError if it cannot be reached."""
    return (await client.connection(broker, lane)).versions.supports(ApiKey.APPEND_AFTER)


async def append_after(
    client: Client,
    broker: int,
    appends: Mapping[TopicPartition, BatchesAfter],
    *,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    lane: str = LANE,
) -> dict[TopicPartition, Refused | None]:
    """Send one request to the leader of all of these; None for batches that every in-sync replica has.

    Raises ClientError if the broker cannot be reached. The client must have the topics' metadata: the ids protect a recreated topic.
    """
    view = client.view
    topics = [
        FollowingOfTopic(
            topic,
            metadata.topic_id if (metadata := view.topics.get(topic)) is not None else None,
            [Following(i, *appends[TopicPartition(topic, i)]) for i in indexes],
        )
        for topic, indexes in by_topic(appends).items()
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
        raise ProtocolBroken(f"broker {broker} sent a malformed response to AppendAfter: {error}") from error
    except ClientError as error:
        client.invalidate(error)
        raise
    outcomes: dict[TopicPartition, Refused | None] = {}
    for topic in response.topics:
        for result in topic.partitions:
            partition = TopicPartition(topic.name, result.index)
            refused = None
            if result.error_code is not ErrorCode.none:
                refused = Refused(result.error_code, f"partition {partition}", result.error_message)
                client.invalidate(refused)
            outcomes[partition] = refused
    return outcomes
