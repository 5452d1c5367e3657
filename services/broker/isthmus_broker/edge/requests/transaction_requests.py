"""What several requests of transactions share."""

from collections.abc import Iterable, Mapping
from typing import Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)

from isthmus_broker.core.transaction.records import TopicPartition

FENCED_SINCE: Final = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that knows PRODUCER_FENCED."""
Errors = Mapping[TopicPartition, ErrorCode]


def for_version(version: int, error: ErrorCode) -> ErrorCode:
    """The error for a client of that version."""
    is_new = error is ErrorCode.producer_fenced and version < FENCED_SINCE
    return ErrorCode.invalid_producer_epoch if is_new else error


def places_of(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    """The partitions that a request names."""
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def results_of(
    topics: Iterable[AddPartitionsToTxnTopic], errors: Errors, version: int
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    """The results in the order of the request."""
    return tuple(
        entity(
            AddPartitionsToTxnTopicResult,
            name=topic.name,
            results_by_partition=tuple(
                entity(
                    AddPartitionsToTxnPartitionResult,
                    partition_index=index,
                    partition_error_code=for_version(version, errors[TopicPartition(topic.name, index)]),
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
