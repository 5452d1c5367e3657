"""Fetch, versions 4 to 18, written by hand because it carries the bytes; property tests hold it equal to kio's codecs.

A response is a list of chunks, so that record batches go from the file to the socket without being copied into a message.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from isthmus_wire.codec import skip_tagged_fields, tags
from isthmus_wire.fast_fields import (
    INT32,
    INT64,
    LEADER,
    TOPIC_ID_SIZE,
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
from isthmus_wire.primitives import READERS, WRITERS, Cursor

FLEXIBLE_SINCE: Final = 12
TOPIC_ID_SINCE: Final = 13
SESSION_SINCE: Final = 7
NO_HIGH_WATERMARK: Final = 2**63 - 1
"""What a follower that does not know the leader's high watermark (and every consumer) sends in version 18."""

_LIMITS: Final = struct.Struct(">iiib")  # max wait, min bytes, max bytes, isolation level
_SESSION: Final = struct.Struct(">ii")
_RESULT: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_OFFSET: Final = struct.Struct(">iq")
_SNAPSHOT: Final = struct.Struct(">qi")
_REPLICA: Final = struct.Struct(">iq")
_ERROR_AND_SESSION: Final = struct.Struct(">hi")
_RESULT_TAGS: Final = {0: _EPOCH_OFFSET, 1: LEADER, 2: _SNAPSHOT}
_read_string = {flexible: READERS["string", flexible, False] for flexible in (False, True)}
_read_cluster_id = READERS["string", True, True]
_write_cluster_id = WRITERS["string", True, True]


class FetchPartition(NamedTuple):
    """What is wanted of one partition."""

    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    directory_id: bytes = bytes(TOPIC_ID_SIZE)
    high_watermark: int = NO_HIGH_WATERMARK


class FetchRequest(NamedTuple):
    """Partitions by topic, and the limits of the response."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    topics: list[tuple[Topic, list[FetchPartition]]]
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    forgotten: Sequence[tuple[Topic, list[int]]] = ()
    rack_id: str = ""
    replica_id: int = -1
    replica_epoch: int = -1
    cluster_id: str | None = None


class FetchedPartition(NamedTuple):
    """The response of one partition; `records` are chunks that are sent one after another, None is null."""

    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: Sequence[Any] | None = ()  # bytes, or whatever has a length and is sent by the caller
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None


class FetchResponse(NamedTuple):
    """Responses by topic."""

    topics: Sequence[tuple[Topic, Sequence[FetchedPartition]]]
    error_code: int = 0
    session_id: int = 0
    throttle_ms: int = 0
    node_endpoints: tuple[tuple[int, str, int, str | None], ...] = ()


def decode_fetch_request(version: int, data: bytes | memoryview, offset: int = 0) -> FetchRequest:
    """The request's body."""
    cursor = Cursor(data, offset)
    flexible = version >= FLEXIBLE_SINCE
    by_id = version >= TOPIC_ID_SINCE
    replica_id = unpack(cursor, INT32)[0] if version < 15 else -1
    max_wait, min_bytes, max_bytes, isolation = unpack(cursor, _LIMITS)
    session_id, session_epoch = unpack(cursor, _SESSION) if version >= SESSION_SINCE else (0, -1)
    topics: list[tuple[Topic, list[FetchPartition]]] = []
    for _ in range(read_count(cursor, flexible=flexible)):
        topic = read_topic(cursor, by_id=by_id, flexible=flexible)
        count = read_count(cursor, flexible=flexible)
        topics.append((topic, [_read_wanted(cursor, version) for _ in range(count)]))
        if flexible:
            skip_tagged_fields(cursor)
    forgotten = _read_forgotten(cursor, by_id=by_id, flexible=flexible) if version >= SESSION_SINCE else []
    rack_id = _read_string[flexible](cursor) if version >= 11 else ""
    cluster_id, replica_epoch = None, -1
    if flexible:
        for tag, end in tags(cursor):
            if tag == 0:
                cluster_id = _read_cluster_id(cursor)
            elif tag == 1 and version >= 15:
                replica_id, replica_epoch = unpack(cursor, _REPLICA)
            cursor.position = end
    return FetchRequest(
        max_wait, min_bytes, max_bytes, topics, isolation, session_id, session_epoch, forgotten, rack_id,
        replica_id, replica_epoch, cluster_id,
    )  # fmt: skip


def _read_wanted(cursor: Cursor, version: int) -> FetchPartition:
    (index,) = unpack(cursor, INT32)
    leader_epoch = unpack(cursor, INT32)[0] if version >= 9 else -1
    (fetch_offset,) = unpack(cursor, INT64)
    last_fetched_epoch = unpack(cursor, INT32)[0] if version >= FLEXIBLE_SINCE else -1
    log_start_offset = unpack(cursor, INT64)[0] if version >= 5 else -1
    (max_bytes,) = unpack(cursor, INT32)
    directory_id, high_watermark = bytes(TOPIC_ID_SIZE), NO_HIGH_WATERMARK
    if version >= FLEXIBLE_SINCE:
        for tag, end in tags(cursor):
            if tag == 0 and version >= 17:
                directory_id = bytes(cursor.take(TOPIC_ID_SIZE))
            elif tag == 1 and version >= 18:
                (high_watermark,) = unpack(cursor, INT64)
            cursor.position = end
    return FetchPartition(
        index, fetch_offset, max_bytes, leader_epoch, last_fetched_epoch, log_start_offset, directory_id, high_watermark
    )


def _read_forgotten(cursor: Cursor, *, by_id: bool, flexible: bool) -> list[tuple[Topic, list[int]]]:
    forgotten: list[tuple[Topic, list[int]]] = []
    for _ in range(read_count(cursor, flexible=flexible)):
        topic = read_topic(cursor, by_id=by_id, flexible=flexible)
        count = read_count(cursor, flexible=flexible)
        forgotten.append((topic, [unpack(cursor, INT32)[0] for _ in range(count)]))
        if flexible:
            skip_tagged_fields(cursor)
    return forgotten


def encode_fetch_request(version: int, request: FetchRequest) -> bytearray:
    """The request's body."""
    flexible = version >= FLEXIBLE_SINCE
    out = bytearray()
    if version < 15:
        out += INT32.pack(request.replica_id)
    out += _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= SESSION_SINCE:
        out += _SESSION.pack(request.session_id, request.session_epoch)
    write_count(out, len(request.topics), flexible=flexible)
    for topic, partitions in request.topics:
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(partitions), flexible=flexible)
        for partition in partitions:
            _write_partition(out, version, partition)
        if flexible:
            out.append(0)
    if version >= SESSION_SINCE:
        _write_forgotten(out, request.forgotten, flexible=flexible)
    if version >= 11:
        write_string(out, request.rack_id, flexible=flexible)
    if flexible:
        _write_request_tags(out, version, request)
    return out


def _write_partition(out: bytearray, version: int, partition: FetchPartition) -> None:
    out += INT32.pack(partition.partition)
    if version >= 9:
        out += INT32.pack(partition.current_leader_epoch)
    out += INT64.pack(partition.fetch_offset)
    if version >= FLEXIBLE_SINCE:
        out += INT32.pack(partition.last_fetched_epoch)
    if version >= 5:
        out += INT64.pack(partition.log_start_offset)
    out += INT32.pack(partition.max_bytes)
    if version < FLEXIBLE_SINCE:
        return
    has_directory = version >= 17 and any(partition.directory_id)
    has_watermark = version >= 18 and partition.high_watermark != NO_HIGH_WATERMARK
    out.append(has_directory + has_watermark)
    if has_directory:
        write_tag(out, 0, partition.directory_id)
    if has_watermark:
        write_tag(out, 1, INT64.pack(partition.high_watermark))


def _write_forgotten(out: bytearray, forgotten: Sequence[tuple[Topic, list[int]]], *, flexible: bool) -> None:
    write_count(out, len(forgotten), flexible=flexible)
    for topic, indexes in forgotten:
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(indexes), flexible=flexible)
        for index in indexes:
            out += INT32.pack(index)
        if flexible:
            out.append(0)


def _write_request_tags(out: bytearray, version: int, request: FetchRequest) -> None:
    has_replica = version >= 15 and (request.replica_id, request.replica_epoch) != (-1, -1)
    out.append((request.cluster_id is not None) + has_replica)
    if request.cluster_id is not None:
        body = bytearray()
        _write_cluster_id(body, request.cluster_id)
        write_tag(out, 0, body)
    if has_replica:
        write_tag(out, 1, _REPLICA.pack(request.replica_id, request.replica_epoch) + b"\0")


def encode_fetch_response(version: int, response: FetchResponse) -> list[Any]:
    """The response's body as chunks; the partitions' records are passed through untouched."""
    flexible = version >= FLEXIBLE_SINCE
    chunks: list[Any] = []
    out = bytearray(INT32.pack(response.throttle_ms))
    if version >= SESSION_SINCE:
        out += _ERROR_AND_SESSION.pack(response.error_code, response.session_id)
    write_count(out, len(response.topics), flexible=flexible)
    for topic, partitions in response.topics:
        write_topic(out, topic, flexible=flexible)
        write_count(out, len(partitions), flexible=flexible)
        for partition in partitions:
            _write_result(out, version, partition, flexible=flexible)
            if partition.records:
                chunks.append(out)
                chunks.extend(partition.records)
                out = bytearray()
            if flexible:
                _write_result_tags(out, partition)
        if flexible:
            out.append(0)
    if version >= 16:
        write_node_endpoints(out, response.node_endpoints)
    elif flexible:
        out.append(0)
    if out:
        chunks.append(out)
    return chunks


def _write_result(out: bytearray, version: int, result: FetchedPartition, *, flexible: bool) -> None:
    out += _RESULT.pack(result.partition, result.error_code, result.high_watermark, result.last_stable_offset)
    if version >= 5:
        out += INT64.pack(result.log_start_offset)
    write_count(out, -1 if result.aborted is None else len(result.aborted), flexible=flexible)
    for producer_id, first_offset in result.aborted or ():
        out += _ABORTED.pack(producer_id, first_offset)
        if flexible:
            out.append(0)
    if version >= 11:
        out += INT32.pack(result.preferred_read_replica)
    size = -1 if result.records is None else sum(map(len, result.records))
    write_count(out, size, flexible=flexible)


def _write_result_tags(out: bytearray, result: FetchedPartition) -> None:
    tagged: list[tuple[int, bytes]] = []
    if result.diverging_epoch is not None:
        tagged.append((0, _EPOCH_OFFSET.pack(*result.diverging_epoch)))
    if result.current_leader is not None:
        tagged.append((1, LEADER.pack(*result.current_leader)))
    if result.snapshot_id is not None:
        tagged.append((2, _SNAPSHOT.pack(*result.snapshot_id)))
    out.append(len(tagged))
    for tag, body in tagged:
        write_tag(out, tag, body + b"\0")


def decode_fetch_response(version: int, data: bytes | memoryview, offset: int = 0) -> FetchResponse:
    """The response's body, for clients and followers; records stay views of `data`."""
    cursor = Cursor(data, offset)
    flexible = version >= FLEXIBLE_SINCE
    (throttle_ms,) = unpack(cursor, INT32)
    error_code = session_id = 0
    if version >= SESSION_SINCE:
        error_code, session_id = unpack(cursor, _ERROR_AND_SESSION)
    topics: list[tuple[Topic, list[FetchedPartition]]] = []
    for _ in range(read_count(cursor, flexible=flexible)):
        topic = read_topic(cursor, by_id=version >= TOPIC_ID_SINCE, flexible=flexible)
        count = read_count(cursor, flexible=flexible)
        topics.append((topic, [_read_result(cursor, version, flexible=flexible) for _ in range(count)]))
        if flexible:
            skip_tagged_fields(cursor)
    endpoints = read_node_endpoints(cursor) if flexible else ()
    return FetchResponse(topics, error_code, session_id, throttle_ms, endpoints)


def _read_result(cursor: Cursor, version: int, *, flexible: bool) -> FetchedPartition:
    index, error_code, high_watermark, last_stable = unpack(cursor, _RESULT)
    log_start = unpack(cursor, INT64)[0] if version >= 5 else -1
    aborted = _read_aborted(cursor, flexible=flexible)
    preferred = unpack(cursor, INT32)[0] if version >= 11 else -1
    records = read_records(cursor, flexible=flexible)
    tagged: dict[int, tuple[int, int]] = {}
    if flexible:
        for tag, end in tags(cursor):
            if tag in _RESULT_TAGS:
                first, second = unpack(cursor, _RESULT_TAGS[tag])
                tagged[tag] = (first, second)
            cursor.position = end
    return FetchedPartition(
        index, error_code, high_watermark, last_stable, log_start, aborted, preferred,
        None if records is None else (records,), tagged.get(0), tagged.get(1), tagged.get(2),
    )  # fmt: skip


def _read_aborted(cursor: Cursor, *, flexible: bool) -> list[tuple[int, int]] | None:
    count = read_count(cursor, flexible=flexible, nullable=True)
    if count < 0:
        return None
    aborted: list[tuple[int, int]] = []
    for _ in range(count):
        producer_id, first_offset = unpack(cursor, _ABORTED)
        aborted.append((producer_id, first_offset))
        if flexible:
            skip_tagged_fields(cursor)
    return aborted
