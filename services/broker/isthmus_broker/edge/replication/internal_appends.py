"""Appends by APIs of our own: done at once, answered as a produce request with acks=all is, when every in-sync replica has the batches or
the time is over."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_after import AppendAfterResponse
from isthmus_wire.extensions.mirrors import AppendedPartition, AppendedTopic, AppendMirroredResponse
from isthmus_wire.extensions.topic_batches import RawTopic

from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.edge.replication.acks_all import Uncommitted
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.replication.waiting import Waiting
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.transport.connection import Request

TIMEOUT_MAX_MS: Final = 300_000
"""The longest that an append may wait for its replicas, whatever it asks for."""
UNKNOWN: Final = -1


class _Asked(Protocol):
    """A partition of a request."""

    @property
    def partition(self) -> int:
        """Its number."""
        ...


A = TypeVar("A", bound=_Asked)
Appending = Callable[[Partition, A], Refusal | None]
"""Appends what is asked, or says why not; may raise DiskFailure."""


class _Append:
    """What became of one partition's batches; while `waits` is set they are in this log, and not yet in all others."""

    __slots__ = ("index", "partition", "refusal", "waits")

    def __init__(self, replicas: ReplicaManager, topic: RawTopic[A], asked: A, append: Appending[A]) -> None:
        self.index = asked.partition
        self.partition: Partition | None = None
        self.waits: Uncommitted | None = None
        found = replicas.find(topic.name, self.index)
        if isinstance(found, ErrorCode):
            self.refusal: Refusal | None = Refusal(found)
            return
        self.partition = found
        if found.topic_id != topic.topic_id:
            self.refusal = Refusal(ErrorCode.inconsistent_topic_id)
            return
        before = None if found.log is None else found.log.end_offset
        try:
            self.refusal = append(found, asked)
        except DiskFailure as failure:
            replicas.fail(found, failure)
            self.refusal = Refusal(ErrorCode.kafka_storage_error)
        if self.refusal is None and found.log is not None and found.log.end_offset != before and found.has_uncommitted:
            self.waits = Uncommitted.now(found)

    def look(self) -> bool:
        """Whether the outcome is known."""
        outcome = None if self.waits is None else self.waits.outcome()
        if outcome is not None:
            self._settle(outcome)
        return self.waits is None

    def give_up(self) -> None:
        """The time is over."""
        if self.waits is not None:
            self._settle(ErrorCode.request_timed_out)

    def _settle(self, outcome: ErrorCode) -> None:
        self.waits = None
        self.refusal = None if outcome is ErrorCode.none else Refusal(outcome)

    def answer(self) -> AppendedPartition:
        """As it stands, with where the log ends as far as this node knows."""
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
    append: Appending[A],
    response: type[AppendMirroredResponse | AppendAfterResponse],
) -> None:
    """Append at once, and respond when all is committed or has failed."""
    made = [(topic.name, [_Append(replicas, topic, part, append) for part in topic.partitions]) for topic in topics]
    appends = [one for _, of_topic in made for one in of_topic]
    pending = [one.waits.partition for one in appends if one.waits is not None]

    def look() -> bool:
        known = [one.look() for one in appends]
        return all(known)

    def answer(_is_complete: bool) -> None:
        for one in appends:
            one.give_up()
        told = tuple(AppendedTopic(name=name, partitions=tuple(one.answer() for one in parts)) for name, parts in made)
        request.respond(response(topics=told))

    if look():
        answer(True)
    else:
        waiting = Waiting(pending, min(max(timeout_ms, 0), TIMEOUT_MAX_MS), look, bool, answer)
        request.defer(waiting.cancel)
