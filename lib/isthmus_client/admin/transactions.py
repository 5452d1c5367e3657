"""Transactions: list, describe, find those that hang, abort one partition of one, fence producers."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import to_millis
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.write_txn_markers.v2.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from isthmus_client.admin.cluster import ProducerState, producers
from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.coordinators import TransactionalId
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.limits import DESCRIBED_PARTITIONS_MAX
from isthmus_client.metadata import Broker, TopicPartition, by_topic
from isthmus_client.producer_ids import raise_epoch
from isthmus_client.requests_by_broker import by_coordinator, by_leader, results

NO_DURATION: Final = -1
_DURATION_SINCE: Final = 1
_PATTERN_SINCE: Final = 2
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_ANY_EPOCH: Final = 0
"""The transaction version of a marker that is accepted at the producer's current epoch."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """The current or last transaction of a transactional id.

    `start_ms` is None before the first transaction; `partitions` are those without a marker.
    """

    transactional_id: str
    coordinator: int | None
    state: str
    producer: ProducerId
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition."""

    partition: TopicPartition
    producer: ProducerState


async def list_transactions(
    client: Client,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    *,
    longer_than_ms: int = NO_DURATION,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """The transactional ids that match every filter, by id; each broker lists those it coordinates, so all must respond.

    `pattern` is a regular expression (RE2) of the whole id.
    """
    request = entity(
        ListTransactionsRequest,
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    at_least = _PATTERN_SINCE if pattern else _DURATION_SINCE if longer_than_ms >= 0 else 0
    view = await client.metadata_of(())

    def verify(response: Any) -> None:
        check(response.error_code, "list of transactions")

    brokers = sorted(view.brokers)
    responses = await asyncio.gather(
        *(client.send_to_broker(b, ApiKey.LIST_TRANSACTIONS, request, verify, at_least=at_least) for b in brokers)
    )
    unknown = {state for response in responses for state in response.unknown_state_filters}
    if unknown:
        raise ClientError(f"there is no transaction state {', '.join(sorted(unknown))}; states are {', '.join(STATES)}")
    listed = [
        ListedTransaction(t.transactional_id, broker, t.producer_id, t.transaction_state)
        for broker, response in zip(brokers, responses, strict=True)
        for t in response.transaction_states
    ]
    return sorted(listed, key=lambda one: one.transactional_id)


STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence"
)  # fmt: skip


async def describe_transactions(
    client: Client, transactional_ids: Collection[str]
) -> dict[str, Transaction | ClientError]:
    """Each id's transaction, or its error."""
    keys = [TransactionalId(name) for name in transactional_ids]
    described = await by_coordinator(client, "describe transactions", dict.fromkeys(keys), _describe)
    coordinators = await client.coordinators([key for key in keys if not isinstance(described[key], ClientError)])
    return {
        key.name: outcome if isinstance(outcome, ClientError) else _transaction(outcome, coordinators[key])
        for key, outcome in described.items()
    }


async def _describe(
    connection: Connection, share: Mapping[TransactionalId, None]
) -> dict[TransactionalId, Any | ClientError]:
    request = entity(DescribeTransactionsRequest, transactional_ids=tuple(key.name for key in share))
    response = await connection.request(ApiKey.DESCRIBE_TRANSACTIONS, request)
    return {
        (key := TransactionalId(state.transactional_id)): state
        if state.error_code is ErrorCode.none
        else Refused(state.error_code, str(key))
        for state in response.transaction_states
    }


def _transaction(state: Any, coordinator: Broker | Refused) -> Transaction:
    start_ms = (state.transaction_start_time - _EPOCH) // timedelta(milliseconds=1)
    return Transaction(
        state.transactional_id,
        None if isinstance(coordinator, Refused) else coordinator.node_id,
        state.transaction_state,
        ProducerId(state.producer_id, state.producer_epoch),
        to_millis(state.transaction_timeout),
        start_ms if start_ms >= 0 else None,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions)),
    )


async def open_transactions(
    client: Client, partitions: Sequence[TopicPartition], broker: int | None = None
) -> list[OpenTransaction]:
    """The transactions that are open in these partitions, as their leaders or this replica know them. Raises ClientError."""
    opened: list[OpenTransaction] = []
    for first in range(0, len(partitions), DESCRIBED_PARTITIONS_MAX):
        share = partitions[first : first + DESCRIBED_PARTITIONS_MAX]
        described = results(await producers(client, share, broker))
        opened += [OpenTransaction(tp, one) for tp, states in described.items() for one in states if one.is_open]
    return opened


async def find_hanging(
    client: Client, partitions: Sequence[TopicPartition], older_than_ms: int, now_ms: int, broker: int | None = None
) -> list[OpenTransaction]:
    """Transactions that are open in a partition and that no coordinator will complete; read_committed consumers stop at them until aborted.

    Transactions whose last record is not older than `older_than_ms` are left out. Raises ClientError.
    """
    old = [
        one
        for one in await open_transactions(client, partitions, broker)
        if now_ms - one.producer.last_timestamp > older_than_ms
    ]
    if not old:
        return []
    listed = await list_transactions(client, producer_ids={one.producer.producer_id for one in old})
    ids = {one.producer_id: one.transactional_id for one in listed}
    described = await describe_transactions(client, set(ids.values()))
    hanging = [one for one in old if is_hanging(one, _current(ids, described, one.producer.producer_id))]
    if not hanging:
        return []
    # One that was completed in between would otherwise seem to hang.
    still = await open_transactions(client, sorted({one.partition for one in hanging}), broker)
    return [one for one in still if any(_is_same(one, other) for other in hanging)]


def _current(
    ids: Mapping[int, str], described: Mapping[str, Transaction | ClientError], producer_id: int
) -> Transaction | None:
    """The producer's transaction; None if no coordinator knows the producer, or forgot it since. Raises other errors."""
    if producer_id not in ids:
        return None
    current = described[ids[producer_id]]
    if isinstance(current, Refused) and current.code is ErrorCode.transactional_id_not_found:
        return None
    if isinstance(current, ClientError):
        raise current
    return current


def is_hanging(opened: OpenTransaction, current: Transaction | None) -> bool:
    """Whether the producer's current transaction, None if it has none, will never complete this one."""
    return current is None or opened.partition not in current.partitions


def _is_same(one: OpenTransaction, other: OpenTransaction) -> bool:
    return (one.partition, one.producer.producer_id, one.producer.transaction_start) == (
        other.partition,
        other.producer.producer_id,
        other.producer.transaction_start,
    )


async def abort_transaction(
    client: Client, partition: TopicPartition, producer: ProducerId, coordinator_epoch: int
) -> None:
    """Write an ABORT marker to one partition, without the coordinator. Raises ClientError."""
    marker = entity(
        WritableTxnMarker,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=tuple(
            entity(WritableTxnMarkerTopic, name=topic, partition_indexes=tuple(indexes))
            for topic, indexes in by_topic([partition]).items()
        ),
        coordinator_epoch=coordinator_epoch,
        transaction_version=_ANY_EPOCH,
    )
    request = entity(WriteTxnMarkersRequest, markers=(marker,))

    async def send(
        connection: Connection, share: dict[TopicPartition, None]
    ) -> dict[TopicPartition, ClientError | None]:
        response = await connection.request(ApiKey.WRITE_TXN_MARKERS, request)
        return dict(_marker_results(response.markers))

    results(await by_leader(client, "abort a transaction", {partition: None}, send))


def _marker_results(markers: Iterable[Any]) -> Iterable[tuple[TopicPartition, Refused | None]]:
    for marker in markers:
        for topic in marker.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                is_done = result.error_code is ErrorCode.none
                subject = f"partition {partition}, producer {marker.producer_id}"
                yield partition, None if is_done else Refused(result.error_code, subject)


async def fence_producers(client: Client, transactional_ids: Collection[str]) -> dict[str, ProducerId | ClientError]:
    """Abort each id's open transaction and raise its epoch, which fences its producer. An unknown id is not created."""
    fenced: dict[str, ProducerId | ClientError] = {}
    for name, transaction in (await describe_transactions(client, transactional_ids)).items():
        if isinstance(transaction, ClientError):
            fenced[name] = transaction
            continue
        try:  # the request also sets the timeout
            fenced[name] = await raise_epoch(client, TransactionalId(name), transaction.timeout_ms)
        except ClientError as error:
            fenced[name] = error
    return fenced
