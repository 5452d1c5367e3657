"""The hand-written encoder produces the codec's bytes."""

from dataclasses import fields
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.extensions.append_mirrored import (
    AppendRequest,
    PartitionAppend,
    TopicAppend,
    decode_append_request,
    encode_append_request,
)
from isthmus_wire.extensions.mirrors import AppendMirroredRequest, MirroredPartition, MirroredTopic
from isthmus_wire.messages import encode_request

_FIELDS = [field.name for field in fields(MirroredPartition)]
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_ID = st.none() | st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
_PARTITIONS = st.builds(PartitionAppend, _INT32, _INT64, _INT64, _INT32, _INT64, st.none() | st.binary(max_size=300))
_TOPICS = st.builds(TopicAppend, st.text(max_size=20), _ID, st.lists(_PARTITIONS, max_size=4))


@given(link_id=_ID, timeout_ms=_INT32, topics=st.lists(_TOPICS, max_size=4))
def test_chunks_are_the_codecs_bytes(link_id: UUID | None, timeout_ms: int, topics: list[TopicAppend]) -> None:
    request = AppendMirroredRequest(
        link_id=link_id,
        timeout_ms=timeout_ms,
        topics=tuple(
            MirroredTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    entity(MirroredPartition, **dict(zip(_FIELDS, p, strict=True))) for p in topic.partitions
                ),
            )
            for topic in topics
        ),
    )
    chunks = encode_append_request(link_id, timeout_ms, topics)
    body = encode_request(ApiKey.APPEND_MIRRORED, 0, request)
    assert b"".join(chunks) == body
    assert decode_append_request(body) == AppendRequest(link_id, timeout_ms, topics)


def test_records_are_not_copied() -> None:
    records = memoryview(b"batches")
    chunks = encode_append_request(None, 1, [TopicAppend("t", None, [PartitionAppend(0, 5, -1, 2, 9, records)])])
    assert any(chunk is records for chunk in chunks)
