"""The transactional batches of a Produce request: before the first one is appended, the coordinator must confirm the partition."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.markers import ProducerId
from isthmus_wire.records import HEADER_SIZE, TRANSACTIONAL_BIT, BatchHeader, header_at

from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.log.verification import NOT_REQUIRED
from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.core.transaction.requests import VERSION_2, AddPartitions
from isthmus_broker.edge.coordinators.verifier import Errors
from isthmus_broker.edge.requests.services import Services

ADDS_SINCE: Final = 12
"""The first version of Produce whose partitions are added to the transaction by the broker."""
ABORTABLE_SINCE: Final = 11
"""The first version that knows TRANSACTION_ABORTABLE."""
_ATTRIBUTES_LOW_AT: Final = 22
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
_NOT_ADDED: Final = "Partition was not added to the transaction"
_UNVERIFIED: Final = "Unable to verify the partition has been added to the transaction. Underlying error: "
Place = tuple[Topic, int]
Topics = list[tuple[Topic, list[tuple[int, memoryview | bytes | None]]]]
NO_NUMBERS: Final[Mapping[Place, int]] = {}


class Needed(NamedTuple):
    """What must be verified before the append."""

    refused: dict[Place, Refusal]
    """Partitions that are refused."""
    numbers: dict[Place, int]
    """The numbers of the verifications."""
    partitions: dict[TopicPartition, Place]
    """The partitions that the coordinator must confirm."""


class Verified(NamedTuple):
    """The result of the verification."""

    refused: Mapping[Place, Refusal]
    numbers: Mapping[Place, int]


def transactional_batches(topics: Topics) -> list[tuple[Place, BatchHeader]]:
    """The batches that belong to a transaction."""
    return [
        ((topic, index), header_at(records))
        for topic, partitions in topics
        for index, records in partitions
        if records is not None and len(records) >= HEADER_SIZE and records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_BIT
    ]


def begin_verification(
    node: Services, transactional_id: str | None, batches: Sequence[tuple[Place, BatchHeader]], version: int
) -> Needed:
    """What must be verified. A partition with the transaction open needs nothing; one that is not led here is refused later."""
    needed = Needed({}, {}, {})
    if transactional_id is None:
        refusal = Refusal(ErrorCode.transactional_id_authorization_failed)
        needed.refused.update((place, refusal) for place, _ in batches)
        return needed
    producers = {ProducerId(header.producer_id, header.producer_epoch) for _, header in batches}
    if len(producers) > 1:
        needed.refused.update((place, Refusal(ErrorCode.invalid_producer_id_mapping)) for place, _ in batches)
        return needed
    (producer,) = producers
    adds, now_ms = version >= ADDS_SINCE, node.clocks.wall()
    is_required = adds or node.config.settings.transaction_partition_verification_enable
    for place, header in batches:
        partition = node.replicas.find(*place)
        if isinstance(partition, ErrorCode) or partition.refuses() is not None or partition.log is None:
            continue
        producers_here = partition.log.producers
        number = producers_here.begin_verification(producer, header.base_sequence, now_ms, raises_epoch=adds)
        if isinstance(number, Refusal):
            needed.refused[place] = number
        elif number is not None:
            needed.numbers[place] = number if is_required else NOT_REQUIRED
            if is_required:
                needed.partitions[TopicPartition(partition.topic, partition.index)] = place
    return needed


async def verify(
    node: Services, transactional_id: str | None, batches: Sequence[tuple[Place, BatchHeader]], version: int
) -> Verified:
    """Have the coordinator confirm the partitions that need it."""
    needed = begin_verification(node, transactional_id, batches, version)
    if not needed.partitions or transactional_id is None:
        return Verified(needed.refused, needed.numbers)
    _, header = batches[0]
    adds = version >= ADDS_SINCE
    errors = await _check(
        node,
        AddPartitions(
            transactional_id=transactional_id,
            producer=ProducerId(header.producer_id, header.producer_epoch),
            partitions=frozenset(needed.partitions),
            version=VERSION_2 if adds else 0,
            verify_only=not adds,
        ),
    )
    for partition, place in needed.partitions.items():
        refusal = _refusal(version, errors[partition])
        if refusal is not None:
            needed.refused[place] = refusal
    return Verified(needed.refused, needed.numbers)


async def _check(node: Services, request: AddPartitions) -> Errors:
    """The coordinator's response. The transaction before may not be complete yet: a client that adds partitions waits a little for it."""
    settings = node.config.settings
    wait_ms = min(settings.add_partitions_to_txn_retry_backoff_max_ms, settings.request_timeout_ms)
    deadline = node.clocks.monotonic() + wait_ms
    while True:
        errors = await node.verifier.check(request)
        is_busy = ErrorCode.concurrent_transactions in errors.values()
        if request.verify_only or not is_busy or node.clocks.monotonic() >= deadline:
            return errors
        await asyncio.sleep(settings.add_partitions_to_txn_retry_backoff_ms / 1000)


def _refusal(version: int, error: ErrorCode) -> Refusal | None:
    """The refusal for a client of that version. Errors that pass are reported as one that every producer retries."""
    if error is ErrorCode.none:
        return None
    if error in _TRY_AGAIN or (error is ErrorCode.concurrent_transactions and version < ADDS_SINCE):
        return Refusal(ErrorCode.not_enough_replicas, _UNVERIFIED + error.name.upper())
    if error is ErrorCode.producer_fenced:
        return Refusal(ErrorCode.invalid_producer_epoch)
    if error is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE:
        return Refusal(ErrorCode.invalid_txn_state, _NOT_ADDED)
    return Refusal(error)
