"""The requests of a transactional producer, each retried until it succeeds, is refused, or times out.

With transaction.version 2 (KIP-890) leaders and group coordinators add their partitions to the transaction, and every transaction has an
epoch of its own. Before, the producer adds partitions and groups itself, and keeps its epoch.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.requests import AddPartitionsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.client import Client
from isthmus_client.coordinators import TransactionalId
from isthmus_client.errors import Refused, check
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.versions import NEWEST

EPOCH_PER_TRANSACTION: Final = 2
"""The level of the feature transaction.version from which on every transaction has an epoch of its own."""
_FEATURE: Final = "transaction.version"
_ADDED_BY_CLIENTS_UNTIL: Final = 3
_END_WITH_NEW_EPOCH_SINCE: Final = 5
_OFFSETS_ADDED_SINCE: Final = 5


async def transaction_version(client: Client, transactional_id: TransactionalId) -> int:
    """The finalized level of the feature transaction.version, as the coordinator reported it when it was connected to."""

    async def attempt() -> int:
        features = (await client.coordinator_connection(transactional_id)).features.finalized_features
        return next((feature.max_version_level for feature in features if feature.name == _FEATURE), 0)

    return await client.retry(f"find the coordinator of {transactional_id}", attempt, [transactional_id])


async def add_partitions(
    client: Client, transactional_id: TransactionalId, producer: ProducerId, partitions: Collection[TopicPartition]
) -> None:
    """Add partitions to the transaction, all or none."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id.name,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=tuple(
            entity(AddPartitionsToTxnTopic, name=topic, partitions=tuple(indexes))
            for topic, indexes in by_topic(partitions).items()
        ),
    )

    def verify(response: Any) -> None:
        _check_all(
            (f"{transactional_id}: partition {topic.name}-{partition.partition_index}", partition.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        )

    await client.send_to_coordinator(
        transactional_id, ApiKey.ADD_PARTITIONS_TO_TXN, request, verify, at_most=_ADDED_BY_CLIENTS_UNTIL
    )


async def add_group(client: Client, transactional_id: TransactionalId, producer: ProducerId, group_id: str) -> None:
    """Add the partition of a group's offsets to the transaction."""
    request = entity(
        AddOffsetsToTxnRequest,
        transactional_id=transactional_id.name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group_id,
    )

    def verify(response: Any) -> None:
        check(response.error_code, f"{transactional_id}: group {group_id}")

    await client.send_to_coordinator(transactional_id, ApiKey.ADD_OFFSETS_TO_TXN, request, verify)


async def commit_offsets(
    client: Client,
    transactional_id: TransactionalId,
    producer: ProducerId,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, Committed],
    version: int,
) -> None:
    """Write a group's offsets as part of the transaction."""
    request = entity(
        TxnOffsetCommitRequest,
        transactional_id=transactional_id.name,
        group_id=group.group_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.instance_id,
        topics=tuple(
            entity(
                TxnOffsetCommitRequestTopic,
                name=topic,
                partitions=tuple(_partition(index, offsets[TopicPartition(topic, index)]) for index in indexes),
            )
            for topic, indexes in by_topic(offsets).items()
        ),
    )

    def verify(response: Any) -> None:
        _check_all(
            (
                f"{transactional_id}: offset of group {group.group_id} for partition {topic.name}-{p.partition_index}",
                p.error_code,
            )
            for topic in response.topics
            for p in topic.partitions
        )

    at_least, at_most = _bounds(_OFFSETS_ADDED_SINCE, version)
    await client.send_to_coordinator(
        group.group_id, ApiKey.TXN_OFFSET_COMMIT, request, verify, at_least=at_least, at_most=at_most
    )


def _partition(index: int, offset: Committed) -> TxnOffsetCommitRequestPartition:
    return entity(
        TxnOffsetCommitRequestPartition,
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


async def end(
    client: Client, transactional_id: TransactionalId, producer: ProducerId, version: int, *, committed: bool
) -> ProducerId:
    """Commit or abort the transaction; returns the producer id and epoch of the next one. May be repeated after a lost response."""
    request = entity(
        EndTxnRequest,
        transactional_id=transactional_id.name,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        committed=committed,
    )

    def verify(response: Any) -> None:
        check(response.error_code, str(transactional_id))

    at_least, at_most = _bounds(_END_WITH_NEW_EPOCH_SINCE, version)
    response = await client.send_to_coordinator(
        transactional_id, ApiKey.END_TXN, request, verify, at_least=at_least, at_most=at_most
    )
    return producer if response.producer_id < 0 else ProducerId(response.producer_id, response.producer_epoch)


def _bounds(since: int, version: int) -> tuple[int, int]:
    """Lowest and highest version of an API whose version `since` belongs to transaction.version 2."""
    return (since, NEWEST) if version >= EPOCH_PER_TRANSACTION else (0, since - 1)


def _check_all(results: Iterable[tuple[str, ErrorCode]]) -> None:
    """Raise the error that decides: a permanent one before a retriable one, and last that a partition was not attempted."""
    refused = [Refused(code, subject) for subject, code in results if code is not ErrorCode.none]
    if refused:
        raise min(refused, key=lambda one: (one.code is ErrorCode.operation_not_attempted, one.code.retriable))
