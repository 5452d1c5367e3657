"""TxnOffsetCommit: OffsetCommit in a producer's transaction. The request and its response have other classes, and less in them."""

from collections.abc import Iterable
from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponseTopic
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kio.schema.types import TopicName


@dataclass(frozen=True, slots=True)
class TransactionalCommit:
    """A request whose transaction was verified under a number."""

    request: TxnOffsetCommitRequest
    verification: int

    @property
    def group_id(self) -> str:
        """The group whose offsets are committed."""
        return self.request.group_id

    @property
    def producer(self) -> ProducerId:
        """The producer of the transaction."""
        return ProducerId(self.request.producer_id, self.request.producer_epoch)

    def as_offset_commit(self) -> OffsetCommitRequest:
        """The same for OffsetCommit."""
        return OffsetCommitRequest(
            group_id=self.request.group_id,
            generation_id_or_member_epoch=self.request.generation_id,
            member_id=self.request.member_id,
            group_instance_id=self.request.group_instance_id,
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=partition.partition_index,
                            committed_offset=partition.committed_offset,
                            committed_leader_epoch=partition.committed_leader_epoch,
                            committed_metadata=partition.committed_metadata,
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in self.request.topics
            ),
        )


def transactional_response(topics: Iterable[OffsetCommitResponseTopic]) -> TxnOffsetCommitResponse:
    """The results in the response's own classes."""
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=TopicName(topic.name),
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=each.error_code)
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def refused(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The response with one error for all partitions."""
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
