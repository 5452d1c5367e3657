"""Produce, versions 3 to 13, written by hand because it carries the bytes; property tests hold it equal to kio's codecs."""

import struct
from typing import Final, NamedTuple

from isthmus_wire.codec import skip_tagged_fields, tags
from isthmus_wire.fast_fields import (
    INT32,
    INT64,
    LEADER,
    Chunk,
    Topic,
    read_count,
    read_node_endpoints,
    read_records,
    read_topic,
    unpack,
    write_count,
    write_node_endpoints,
    write_string,
    write_tag,
    write_topic,
)
from isthmus_wire.primitives import READERS, Cursor

FLEXIBLE_SINCE: Final = 9
LEADER_SINCE: Final = 10
ADDS_PARTITIONS_SINCE: Final = 12
"""From this version on the leader adds the partition to the transaction (KIP-890)."""
TOPIC_ID_SINCE: Final = 13

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_AND_START: Final = struct.Struct(">ihqqq")
_NO_ERRORS: Final = {True: b"\x01\x00", False: struct.pack(">ih", 0, -1)}
_read_nullable_string = {flexible: READERS["string", flexible, True] for flexible in (False, True)}


class ProduceRequest(NamedTuple):
    """Batches for partitions: `topics` holds (topic, [(partition, records or None)])."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[tuple[Topic, list[tuple[int, memoryview | bytes | None]]]]


class ProduceResult(NamedTuple):
    """What became of one partition's batch."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


class ProduceResponse(NamedTuple):
    """Results by topic, in the request's order."""

    topics: list[tuple[Topic, list[ProduceResult]]]
    throttle_ms: int = 0
    node_endpoints: tuple[tuple[int, str, int, str | None], ...] = ()


def decode_produce_request(version: int, data: bytes | memoryview, offset: int = 0) -> ProduceRequest:
    """The request's body; record batches stay views of `data`."""
    cursor = Cursor(data, offset)
    flexible = version >= FLEXIBLE_SINCE
    transactional_id = _read_nullable_string[flexible](cursor)
    acks, timeout_ms = unpack(cursor, _ACKS_AND_TIMEOUT)
    topics: list[tuple[Topic, list[tuple[int, memoryview | bytes | None]]]] = []
    for _ in range(read_count(cursor, flexible=flexible)):
        topic = read_topic(cursor, by_id=version >= TOPIC_ID_SINCE, flexible=flexible)
        partitions: list[tuple[int, memoryview | bytes | None]] = []
        for _ in range(read_count(cursor, flexible=flexible)):
            (index,) = unpack(cursor, INT32)
            partitions.append((index, read_records(cursor, flexible=flexible)))
            if flexible:
                skip_tagged_fields(cursor)
        if flexible:
            skip_tagged_fields(cursor)
        topics.append((topic, partitions))
    if flexible:
        skip_tagged_fields(cursor)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_produce_request(version: int, request: ProduceRequest) -> bytearray:
    """The request's body."""
    return bytearray().join(encode_produce_chunks(version, request))


def encode_produce_chunks(version: int, request: ProduceRequest) -> list[Chunk]:
    """The request's body in pieces, record batches among them as they are."""
    flexible = version >= FLEXIBLE_SINCE
    chunks: list[Chunk] = []
    out = bytearray()
    write_string(out, request.transactional_id, flexible=flexible)
    out += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    write_count(out, len(request.topics), flexible=flexible)
    for topic, partitions in request.topics:
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(partitions), flexible=flexible)
        for index, records in partitions:
            out += INT32.pack(index)
            write_count(out, -1 if records is None else len(records), flexible=flexible)
            if records:
                chunks += out, records
                out = bytearray()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    return [*chunks, out]


def encode_produce_response(version: int, response: ProduceResponse) -> bytearray:
    """The response's body."""
    flexible = version >= FLEXIBLE_SINCE
    out = bytearray()
    write_count(out, len(response.topics), flexible=flexible)
    for topic, results in response.topics:
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(results), flexible=flexible)
        for result in results:
            _write_result(out, version, result, flexible=flexible)
        if flexible:
            out.append(0)
    out += INT32.pack(response.throttle_ms)
    if version >= LEADER_SINCE:
        write_node_endpoints(out, response.node_endpoints)
    elif flexible:
        out.append(0)
    return out


def _write_result(out: bytearray, version: int, result: ProduceResult, *, flexible: bool) -> None:
    partition, error_code, base_offset, append_time, start_offset = result[:5]
    if version >= 5:
        out += _RESULT_AND_START.pack(partition, error_code, base_offset, append_time, start_offset)
    else:
        out += _RESULT.pack(partition, error_code, base_offset, append_time)
    if version >= 8 and not error_code:
        out += _NO_ERRORS[flexible]
    elif version >= 8:
        write_count(out, len(result.record_errors), flexible=flexible)
        for batch_index, message in result.record_errors:
            out += INT32.pack(batch_index)
            write_string(out, message, flexible=flexible)
            if flexible:
                out.append(0)
        write_string(out, result.error_message, flexible=flexible)
    if not flexible:
        return
    if version >= LEADER_SINCE and result.current_leader is not None and result.current_leader != (-1, -1):
        out.append(1)
        write_tag(out, 0, LEADER.pack(*result.current_leader) + b"\0")
    else:
        out.append(0)


def decode_produce_response(version: int, data: bytes | memoryview, offset: int = 0) -> ProduceResponse:
    """The response's body, for clients."""
    cursor = Cursor(data, offset)
    flexible = version >= FLEXIBLE_SINCE
    topics: list[tuple[Topic, list[ProduceResult]]] = []
    for _ in range(read_count(cursor, flexible=flexible)):
        topic = read_topic(cursor, by_id=version >= TOPIC_ID_SINCE, flexible=flexible)
        results = [
            _read_result(cursor, version, flexible=flexible) for _ in range(read_count(cursor, flexible=flexible))
        ]
        if flexible:
            skip_tagged_fields(cursor)
        topics.append((topic, results))
    (throttle_ms,) = unpack(cursor, INT32)
    return ProduceResponse(topics, throttle_ms, read_node_endpoints(cursor) if flexible else ())


def _read_result(cursor: Cursor, version: int, *, flexible: bool) -> ProduceResult:
    index, error_code, base_offset, log_append_time = unpack(cursor, _RESULT)
    log_start_offset = unpack(cursor, INT64)[0] if version >= 5 else -1
    errors: list[tuple[int, str | None]] = []
    message = None
    if version >= 8:
        for _ in range(read_count(cursor, flexible=flexible)):
            (batch_index,) = unpack(cursor, INT32)
            errors.append((batch_index, _read_nullable_string[flexible](cursor)))
            if flexible:
                skip_tagged_fields(cursor)
        message = _read_nullable_string[flexible](cursor)
    leader = None
    if flexible:
        for tag, end in tags(cursor):
            if tag == 0:
                leader_id, leader_epoch = unpack(cursor, LEADER)
                leader = (leader_id, leader_epoch)
            cursor.position = end
    return ProduceResult(
        index, error_code, base_offset, log_append_time, log_start_offset, tuple(errors), message, leader
    )
