"""Fetch and produce record batches as bytes, without decoding them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus_wire import fetch as wire_fetch
from isthmus_wire import produce as wire_produce
from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import DecodeError, ErrorCode, error_code
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition, FetchRequest
from isthmus_wire.produce import ProduceRequest

from isthmus_client.client import Client
from isthmus_client.connection import Chunk, Connection
from isthmus_client.errors import ClientError, ProtocolBroken, Refused, check
from isthmus_client.fetch_session import FetchSession, grouped
from isthmus_client.limits import (
    FETCH_MAX_BYTES,
    FETCH_SILENCE_SECONDS,
    FETCH_WAIT_MS,
    PARTITION_MAX_BYTES,
    PRODUCE_TIMEOUT_MS,
    REQUEST_SECONDS,
)
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.requests_by_broker import by_leader
from isthmus_client.versions import NEWEST

FETCH_LANE: Final = "fetch"
PRODUCE_LANE: Final = "produce"
ALL_IN_SYNC: Final = -1


class FetchFrom(NamedTuple):
    """Where to read a partition; with epochs, the broker detects a stale leader or a diverged log."""

    offset: int
    max_bytes: int = PARTITION_MAX_BYTES
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds on the wait for records and on their size."""

    wait_ms: int = FETCH_WAIT_MS
    min_bytes: int = 1
    max_bytes: int = FETCH_MAX_BYTES
    read_committed: bool = False
    rack: str = ""


class Fetched(NamedTuple):
    """Batches of one partition, a view of the response; the last may be incomplete, the first may begin before the requested offset."""

    records: Chunk
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    leader_epoch: int
    preferred_read_replica: int
    diverging_epoch: tuple[int, int] | None


class InTransaction(NamedTuple):
    """The transaction of batches that are appended; `is_added_by_leader` if their producer has not added the partitions (KIP-890)."""

    transactional_id: str
    is_added_by_leader: bool


class Appended(NamedTuple):
    """Where a batch was appended; -1 if the broker does not say (acks=0, or a duplicate)."""

    base_offset: int
    log_append_time: int = -1
    log_start_offset: int = -1


async def fetch_from(
    client: Client,
    broker: int,
    positions: Mapping[TopicPartition, FetchFrom],
    limits: FetchLimits,
    *,
    session: FetchSession | None = None,
    lane: str = FETCH_LANE,
) -> dict[TopicPartition, Fetched | Refused]:
    """Fetch once from one broker, without retries; raises ClientError. With a session, unchanged partitions are omitted."""
    try:
        return await _fetch(client, broker, positions, limits, session, lane)
    except ClientError as error:
        if session is not None:
            session.reset()
        client.invalidate(error)
        raise


async def _fetch(
    client: Client,
    broker: int,
    positions: Mapping[TopicPartition, FetchFrom],
    limits: FetchLimits,
    session: FetchSession | None,
    lane: str,
) -> dict[TopicPartition, Fetched | Refused]:
    connection = await client.connection(broker, lane)
    names, by_id = _topics(client, positions)
    newest = NEWEST if by_id else wire_fetch.TOPIC_ID_SINCE - 1
    version = connection.versions.choose(ApiKey.FETCH, at_most=newest)
    if version < wire_fetch.TOPIC_ID_SINCE:
        names = {topic: topic for topic in names}
    request = _fetch_request(positions, names, limits, session)
    frame, start = await connection.exchange(
        ApiKey.FETCH,
        version,
        (wire_fetch.encode_fetch_request(version, request),),
        seconds=REQUEST_SECONDS + limits.wait_ms / 1000,
        silence=FETCH_SILENCE_SECONDS + limits.wait_ms / 1000,
    )
    try:
        response = wire_fetch.decode_fetch_response(version, frame, start)
    except DecodeError as error:
        raise ProtocolBroken(f"broker {connection.name} sent a malformed response to FETCH: {error}") from error
    check(error_code(response.error_code), f"fetch from broker {connection.name}")
    if session is not None:
        session.confirm(response.session_id)
    client.update_brokers(response.node_endpoints)
    topic_names = {wire: name for name, wire in names.items()}
    return {
        (tp := TopicPartition(topic_names[topic], p.partition)): _fetched(client, tp, p)
        for topic, partitions in response.topics
        if topic in topic_names
        for p in partitions
    }


def _topics(client: Client, positions: Mapping[TopicPartition, object]) -> tuple[dict[str, Topic], bool]:
    """Each topic's name or id in requests, and whether all have ids."""
    view = client.view
    names: dict[str, Topic] = {}
    for name in {partition.topic for partition in positions}:
        current = view.topics.get(name)
        if current is None or current.topic_id is None:
            return {partition.topic: partition.topic for partition in positions}, False
        names[name] = current.topic_id.bytes
    return names, True


def _fetch_request(
    positions: Mapping[TopicPartition, FetchFrom],
    names: Mapping[str, Topic],
    limits: FetchLimits,
    session: FetchSession | None,
) -> FetchRequest:
    partitions = {
        (names[tp.topic], tp.partition): FetchPartition(
            tp.partition, at.offset, at.max_bytes, at.leader_epoch, at.last_fetched_epoch
        )
        for tp, at in positions.items()
    }
    session_id, epoch, forgotten = 0, -1, {}
    if session is not None:
        session_id, epoch, partitions_changed, gone = session.plan(partitions)
        partitions, forgotten = dict(partitions_changed), grouped(gone)
    return FetchRequest(
        limits.wait_ms,
        limits.min_bytes,
        limits.max_bytes,
        [(topic, [partitions[topic, i] for i in indexes]) for topic, indexes in grouped(partitions).items()],
        isolation_level=int(limits.read_committed),
        session_id=session_id,
        session_epoch=epoch,
        forgotten=list(forgotten.items()),
        rack_id=limits.rack,
    )


def _fetched(client: Client, partition: TopicPartition, fetched: FetchedPartition) -> Fetched | Refused:
    if fetched.current_leader is not None:
        client.update_leader(partition, *fetched.current_leader)
    code = error_code(fetched.error_code)
    if code is not ErrorCode.none:
        refused = Refused(code, f"partition {partition}")
        client.invalidate(refused)
        return refused
    current = client.view.leader(partition)
    return Fetched(
        fetched.records[0] if fetched.records else b"",
        fetched.high_watermark,
        fetched.last_stable_offset,
        fetched.log_start_offset,
        fetched.aborted or (),
        current.leader_epoch if current is not None else -1,
        fetched.preferred_read_replica,
        fetched.diverging_epoch,
    )


async def fetch_batches(
    client: Client,
    positions: Mapping[TopicPartition, FetchFrom],
    limits: FetchLimits | None = None,
    *,
    lane: str = FETCH_LANE,
) -> dict[TopicPartition, Fetched | ClientError]:
    """Fetch once from all leaders, without retries: the caller fetches again anyway, with refreshed metadata."""
    chosen = limits or FetchLimits()
    outcomes: dict[TopicPartition, Fetched | ClientError] = {}
    shares: dict[int, dict[TopicPartition, FetchFrom]] = {}
    for partition, leader in (await client.leaders(list(positions))).items():
        if isinstance(leader, Refused):
            client.invalidate(leader)
            outcomes[partition] = leader
        else:
            shares.setdefault(leader.node_id, {})[partition] = positions[partition]

    async def fetch(broker: int, share: dict[TopicPartition, FetchFrom]) -> None:
        try:
            outcomes.update(await fetch_from(client, broker, share, chosen, lane=lane))
        except ClientError as error:
            outcomes.update(dict.fromkeys(share, error))

    await asyncio.gather(*(fetch(broker, share) for broker, share in shares.items()))
    return outcomes


async def produce_batches(
    client: Client,
    batches: Mapping[TopicPartition, Chunk],
    *,
    acks: int = ALL_IN_SYNC,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    transaction: InTransaction | None = None,
    lane: str = PRODUCE_LANE,
) -> dict[TopicPartition, Appended | ClientError]:
    """Append one batch to each partition, and retry until it is acknowledged or the operation times out.

    Retries may duplicate a batch without a producer id, but never one with an id and a sequence.
    """

    async def send(
        connection: Connection, share: dict[TopicPartition, Chunk]
    ) -> dict[TopicPartition, Appended | ClientError]:
        return await _produce(client, connection, share, acks, timeout_ms, transaction)

    return await by_leader(client, "produce", batches, send, lane)


async def produce_to(
    client: Client,
    broker: int,
    batches: Mapping[TopicPartition, Chunk],
    *,
    timeout_ms: int = PRODUCE_TIMEOUT_MS,
    lane: str = PRODUCE_LANE,
) -> dict[TopicPartition, Appended | ClientError]:
    """Append once to partitions that this broker leads; raises ClientError if it cannot be reached."""
    try:
        outcomes = await _produce(client, await client.connection(broker, lane), batches, ALL_IN_SYNC, timeout_ms)
    except ClientError as error:
        client.invalidate(error)
        raise
    for outcome in outcomes.values():
        if isinstance(outcome, ClientError):
            client.invalidate(outcome)
    return outcomes


async def _produce(
    client: Client,
    connection: Connection,
    share: Mapping[TopicPartition, Chunk],
    acks: int,
    timeout_ms: int,
    transaction: InTransaction | None = None,
) -> dict[TopicPartition, Appended | ClientError]:
    names, by_id = _topics(client, share)
    oldest, newest = 0, NEWEST if by_id else wire_produce.TOPIC_ID_SINCE - 1
    if transaction is not None and transaction.is_added_by_leader:
        oldest = wire_produce.ADDS_PARTITIONS_SINCE
    elif transaction is not None:
        newest = wire_produce.ADDS_PARTITIONS_SINCE - 1
    version = connection.versions.choose(ApiKey.PRODUCE, at_least=oldest, at_most=newest)
    if version < wire_produce.TOPIC_ID_SINCE:
        names = {topic: topic for topic in names}
    topics: list[tuple[Topic, list[tuple[int, memoryview | bytes | None]]]] = [
        (names[topic], [(i, memoryview(share[TopicPartition(topic, i)])) for i in indexes])
        for topic, indexes in by_topic(share).items()
    ]
    transactional_id = None if transaction is None else transaction.transactional_id
    wait_seconds = min(timeout_ms / 1000, client.response_seconds)
    request = ProduceRequest(transactional_id, acks, int(wait_seconds * 1000), topics)
    body = wire_produce.encode_produce_chunks(version, request)
    if acks == 0:
        await connection.send_only(ApiKey.PRODUCE, version, body)
        return dict.fromkeys(share, Appended(-1))
    frame, start = await connection.exchange(
        ApiKey.PRODUCE, version, body, seconds=client.response_seconds + wait_seconds
    )
    try:
        response = wire_produce.decode_produce_response(version, frame, start)
    except DecodeError as error:
        raise ProtocolBroken(f"broker {connection.name} sent a malformed response to PRODUCE: {error}") from error
    client.update_brokers(response.node_endpoints)
    topic_names = {wire: name for name, wire in names.items()}
    return {
        (tp := TopicPartition(topic_names[topic], r.partition)): _appended(client, tp, r)
        for topic, results in response.topics
        for r in results
    }


def _appended(client: Client, partition: TopicPartition, result: wire_produce.ProduceResult) -> Appended | Refused:
    if result.current_leader is not None:
        client.update_leader(partition, *result.current_leader)
    code = error_code(result.error_code)
    if code is ErrorCode.duplicate_sequence_number:
        return Appended(-1)
    if code is not ErrorCode.none:
        message = result.error_message or next((text for _, text in result.record_errors if text), None)
        return Refused(code, f"partition {partition}", message)
    return Appended(result.base_offset, result.log_append_time, result.log_start_offset)
