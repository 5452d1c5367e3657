"""Appends by Isthmus's own APIs. As for Produce with acks=all, the response is sent when every in-sync replica has the batches, or at the
timeout."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_after import AppendAfterResponse
from isthmus_wire.extensions.mirrors import AppendedPartition, AppendedTopic, AppendMirroredResponse
from isthmus_wire.extensions.topic_batches import RawTopic

from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.core.replica.waiting import Waiting
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.transport.connection import Request

TIMEOUT_MAX_MS: Final = 300_000
"""Upper bound on the timeout of a request."""
UNKNOWN: Final = -1


class _PartitionAppend(Protocol):
    """A partition of a request."""

    @property
    def partition(self) -> int: ...


A = TypeVar("A", bound=_PartitionAppend)
Appender = Callable[[Partition, A], Refusal | None]
"""Appends to one partition, or returns the refusal; may raise DiskFailure."""


class _Append:
    """The outcome of one partition's append; while `uncommitted` is set, in-sync replicas may be missing the batches."""

    __slots__ = ("index", "partition", "refusal", "uncommitted")

    def __init__(self, replicas: ReplicaManager, topic: RawTopic[A], part: A, append: Appender[A]) -> None:
        self.index = part.partition
        self.partition: Partition | None = None
        self.uncommitted: Uncommitted | None = None
        partition = replicas.find(topic.name, self.index)
        if isinstance(partition, ErrorCode):
            self.refusal: Refusal | None = Refusal(partition)
            return
        self.partition = partition
        if partition.topic_id != topic.topic_id:
            self.refusal = Refusal(ErrorCode.inconsistent_topic_id)
            return
        before = None if partition.log is None else partition.log.end_offset
        try:
            self.refusal = append(partition, part)
        except DiskFailure as failure:
            replicas.fail(partition, failure)
            self.refusal = Refusal(ErrorCode.kafka_storage_error)
        has_grown = partition.log is not None and partition.log.end_offset != before
        if self.refusal is None and has_grown and partition.has_uncommitted:
            self.uncommitted = Uncommitted.now(partition)

    def is_settled(self) -> bool:
        """Whether the outcome is known."""
        outcome = None if self.uncommitted is None else self.uncommitted.outcome()
        if outcome is not None:
            self._settle(outcome)
        return self.uncommitted is None

    def time_out(self) -> None:
        """Fail the append with a timeout if it is still uncommitted."""
        if self.uncommitted is not None:
            self._settle(ErrorCode.request_timed_out)

    def _settle(self, outcome: ErrorCode) -> None:
        self.uncommitted = None
        self.refusal = None if outcome is ErrorCode.none else Refusal(outcome)

    def result(self) -> AppendedPartition:
        """The outcome, with the offsets of this node's log."""
        log = None if self.partition is None else self.partition.log
        return AppendedPartition(
            index=self.index,
            error_code=ErrorCode.none if self.refusal is None else self.refusal.error,
            error_message=None if self.refusal is None else self.refusal.message,
            log_start_offset=UNKNOWN if log is None else log.log_start_offset,
            log_end_offset=UNKNOWN if log is None else log.end_offset,
            last_epoch=UNKNOWN if log is None else log.epochs.latest_epoch,
        )


def append_all(
    replicas: ReplicaManager,
    request: Request,
    timeout_ms: int,
    topics: Sequence[RawTopic[A]],
    append: Appender[A],
    response: type[AppendMirroredResponse | AppendAfterResponse],
) -> None:
    """Append at once; respond when every append is committed or has failed, or at the timeout."""
    by_topic = [(topic.name, [_Append(replicas, topic, part, append) for part in topic.partitions]) for topic in topics]
    appends = [one for _, of_topic in by_topic for one in of_topic]
    pending = [one.uncommitted.replica for one in appends if one.uncommitted is not None]

    def check() -> bool:
        settled = [one.is_settled() for one in appends]  # a list, so that each is checked
        return all(settled)

    def respond(_is_complete: bool) -> None:
        for one in appends:
            one.time_out()
        results = ((name, tuple(one.result() for one in of_topic)) for name, of_topic in by_topic)
        request.respond(response(topics=tuple(AppendedTopic(name=name, partitions=parts) for name, parts in results)))

    if check():
        respond(True)
    else:
        wait_ms = min(max(timeout_ms, 0), TIMEOUT_MAX_MS)
        waiting = Waiting(asyncio.get_running_loop(), pending, wait_ms, check, bool, respond)
        request.defer(waiting.cancel)
