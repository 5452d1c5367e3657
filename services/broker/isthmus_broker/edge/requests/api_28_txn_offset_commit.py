"""TxnOffsetCommit: record offsets of a group in a transaction; they count when the transaction is committed."""

from typing import Final

from isthmus_model.internal_topics import OFFSETS_TOPIC
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.core.coordinator.runtime import coordinator_error
from isthmus_broker.core.group.transactional_commit import TransactionalCommit, refused
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.log.verification import NOT_VERIFIED
from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.core.transaction.requests import VERSION_2, AddPartitions
from isthmus_broker.edge.requests.group_requests import context_of
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

ADDS_SINCE: Final = 5
"""The first version that adds the offsets to the transaction itself."""
LOADING_SINCE: Final = 2
"""The first version whose clients retry while the coordinator loads."""
ABORTABLE_SINCE: Final = 4
"""The first version that knows TRANSACTION_ABORTABLE."""


async def handle(node: Services, request: Request) -> None:
    """Verify the transaction, then have the group's shard record the offsets."""
    body: TxnOffsetCommitRequest = request.decode()
    index = coordinator_partition(body.group_id, node.groups.topic_partitions())
    if not body.group_id:
        _refuse(node, request, body, ErrorCode.invalid_group_id)
        return
    if not any(_exists(node, topic.name, each.partition_index) for topic in body.topics for each in topic.partitions):
        _refuse(node, request, body, ErrorCode.unknown_topic_or_partition)
        return
    verification = await _verify(node, body, index, adds=request.header.api_version >= ADDS_SINCE)
    if isinstance(verification, ErrorCode):
        _refuse(node, request, body, verification)
        return
    commit = TransactionalCommit(body, verification)
    if not node.groups.submit(index, commit, context_of(request), request.respond):
        _refuse(node, request, body, ErrorCode.not_coordinator)


def _exists(node: Services, topic: str, index: int) -> bool:
    existing = node.image.topics.named(topic)
    return existing is not None and index in existing.partitions


async def _verify(node: Services, body: TxnOffsetCommitRequest, index: int, *, adds: bool) -> int | ErrorCode:
    """The number of the verification, or the error."""
    place = TopicPartition(OFFSETS_TOPIC, index)
    partition = node.replicas.find(*place)
    if isinstance(partition, ErrorCode) or not partition.is_led_here or partition.log is None:
        return ErrorCode.not_coordinator
    producer, now_ms = ProducerId(body.producer_id, body.producer_epoch), node.clocks.wall()
    number = partition.log.producers.begin_verification(producer, 0, now_ms, raises_epoch=adds)
    if isinstance(number, Refusal):
        return number.error
    must_verify = adds or node.config.settings.transaction_partition_verification_enable
    if number is None:
        return NOT_VERIFIED  # the transaction is open in this log
    if not must_verify:
        return number
    errors = await node.verifier.check(
        AddPartitions(
            transactional_id=body.transactional_id,
            producer=producer,
            partitions=frozenset({place}),
            version=VERSION_2 if adds else 0,
            verify_only=not adds,
        )
    )
    error = errors[place]
    return number if error is ErrorCode.none else error


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error for all partitions."""
    request.respond(refused(request.decode(), error))


def _refuse(node: Services, request: Request, body: TxnOffsetCommitRequest, error: ErrorCode) -> None:
    """Respond with an error for all partitions that exist; the others are unknown wherever they are sent."""
    error = _known_to(request.header.api_version, coordinator_error(error))
    topics = tuple(
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=error
                    if _exists(node, topic.name, each.partition_index)
                    else ErrorCode.unknown_topic_or_partition,
                )
                for each in topic.partitions
            ),
        )
        for topic in body.topics
    )
    request.respond(TxnOffsetCommitResponse(throttle_time=NO_THROTTLE, topics=topics))


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    """The error for a client of that version."""
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE:
        return ErrorCode.invalid_txn_state
    if error is ErrorCode.coordinator_load_in_progress and version < LOADING_SINCE:
        return ErrorCode.coordinator_not_available
    return error
