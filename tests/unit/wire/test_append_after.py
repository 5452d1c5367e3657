"""The hand-written encoder produces the codec's bytes."""

from dataclasses import fields
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.extensions.append_after import (
    AppendAfterRequest,
    Following,
    FollowingOfTopic,
    FollowingPartition,
    FollowingTopic,
    decode_after_request,
    encode_after_request,
)
from isthmus_wire.messages import encode_request

_FIELDS = [field.name for field in fields(FollowingPartition)]
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_ID = st.none() | st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
_RECORDS = st.none() | st.lists(st.binary(max_size=100), max_size=3)
_PARTITIONS = st.builds(Following, _INT32, _INT64, _INT64, _RECORDS)
_TOPICS = st.builds(FollowingOfTopic, st.text(max_size=20), _ID, st.lists(_PARTITIONS, max_size=4))


def _joined(partition: Following) -> tuple[int, int, int, bytes | None]:
    return *partition[:-1], None if partition.records is None else b"".join(partition.records)


@given(timeout_ms=_INT32, topics=st.lists(_TOPICS, max_size=4))
def test_chunks_are_the_codecs_bytes(timeout_ms: int, topics: list[FollowingOfTopic]) -> None:
    request = AppendAfterRequest(
        timeout_ms=timeout_ms,
        topics=tuple(
            FollowingTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    entity(FollowingPartition, **dict(zip(_FIELDS, _joined(p), strict=True))) for p in topic.partitions
                ),
            )
            for topic in topics
        ),
    )
    body = encode_request(ApiKey.APPEND_AFTER, 0, request)
    assert b"".join(encode_after_request(timeout_ms, topics)) == body
    decoded_timeout, decoded = decode_after_request(body)
    assert decoded_timeout == timeout_ms
    assert [_plain(topic) for topic in decoded] == [_plain(topic) for topic in topics]


def _plain(topic: FollowingOfTopic) -> tuple[object, ...]:
    return topic.name, topic.topic_id, [_joined(partition) for partition in topic.partitions]
