"""Reading many partitions for one fetch of a consumer, and what reading for replicas has in common with it."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.edge.replication.file_range import FileRange
from isthmus_broker.edge.replication.partition import NO_EPOCH, Partition
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.log import Log, OffsetOutOfRange

READ_COMMITTED: Final = 1
NO_REPLICA: Final = -1
DEBUGGING: Final = -2
CONSUMERS: Final = (NO_REPLICA, DEBUGGING)
"""Replica ids of readers that are no replicas: consumers, and Kafka's debugging tools."""

_ASK_ANOTHER: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
Answered = list[tuple[Topic, FetchedPartition]]


class ReadRules(NamedTuple):
    """What a fetch allows."""

    max_bytes: int
    read_committed: bool
    replica_id: int
    names_leader: bool = False
    leader_only: bool = True
    prefer: Callable[[Partition, int], int | None] = lambda _partition, _offset: None
    """A replica nearer to the consumer that holds the offset, asked where this node leads."""

    @property
    def is_consumer(self) -> bool:
        """Whether the reader is no replica."""
        return self.replica_id in CONSUMERS


class ReadResult(NamedTuple):
    """What there is for a fetch now."""

    answers: Answered
    size: int
    is_urgent: bool
    """Something is to be told at once, however few bytes there are."""
    news: Sequence[Partition] = ()
    """Partitions whose high watermark a replica does not know yet: worth an answer, but not each at once."""


Find = Callable[[Topic, int], Partition | ErrorCode]


def read_partitions(wanted: Sequence[tuple[Topic, FetchPartition]], rules: ReadRules, find: Find) -> ReadResult:
    """Read in order until the response is full; the first batch found comes whole, whatever its size."""
    answers: Answered = []
    total = 0
    is_urgent = False
    for topic, part in wanted:
        found = find(topic, part.partition)
        if isinstance(found, ErrorCode):
            answer = FetchedPartition(part.partition, found.value, aborted=())
        else:
            answer = _read_for_consumer(found, part, rules, rules.max_bytes - total, at_least_one=total == 0)
        is_urgent = (
            is_urgent
            or answer.error_code != 0
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        )
        total += sum(map(len, answer.records or ()))
        answers.append((topic, answer))
    return ReadResult(answers, total, is_urgent)


def _read_for_consumer(
    partition: Partition, part: FetchPartition, rules: ReadRules, room: int, *, at_least_one: bool
) -> FetchedPartition:
    error = partition.refuses(max(part.current_leader_epoch, NO_EPOCH), leader_only=rules.leader_only)
    log = partition.log
    if error is None and min(rules.max_bytes, part.max_bytes) < 0:
        error = ErrorCode.unknown_server_error
    if error is not None or log is None:
        return refused(partition, part, error or ErrorCode.kafka_storage_error, names_leader=rules.names_leader)
    preferred = rules.prefer(partition, part.fetch_offset) if partition.is_led_here else None
    if preferred is not None:
        return answered(log, part, preferred=preferred)
    verdict = diverges(log, part)
    if verdict is not None:
        return verdict
    upper = log.last_stable_offset if rules.read_committed else log.high_watermark
    return read_log(log, part, upper, room, at_least_one=at_least_one, read_committed=rules.read_committed)


def refused(partition: Partition, part: FetchPartition, error: ErrorCode, *, names_leader: bool) -> FetchedPartition:
    """An error, with who leads now where that helps."""
    leader = partition.leader_now if error in _ASK_ANOTHER and names_leader else None
    return FetchedPartition(part.partition, error.value, current_leader=leader)


def read_log(
    log: Log, part: FetchPartition, upper: int, room: int, *, at_least_one: bool, read_committed: bool
) -> FetchedPartition:
    """What the log holds from the wanted offset up to `upper`."""
    try:
        found = log.read(part.fetch_offset, min(part.max_bytes, max(room, 0)), upper, at_least_one=at_least_one)
    except OffsetOutOfRange:
        return FetchedPartition(part.partition, ErrorCode.offset_out_of_range.value)
    except DiskFailure:
        return FetchedPartition(part.partition, ErrorCode.kafka_storage_error.value)
    records = (FileRange(found.segment, found.position, found.size),) if found.size else ()
    aborted = None
    if read_committed:
        rows = log.aborted_between(part.fetch_offset, upper) if found.size else ()
        aborted = [(row.producer_id, row.first_offset) for row in rows]
    return answered(log, part, aborted=aborted, records=records)


def answered(
    log: Log,
    part: FetchPartition,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    records: Sequence[FileRange] = (),
    diverging_epoch: tuple[int, int] | None = None,
    preferred: int = NO_REPLICA,
) -> FetchedPartition:
    """An answer without an error."""
    return FetchedPartition(
        part.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted=aborted,
        preferred_read_replica=preferred,
        records=records,
        diverging_epoch=diverging_epoch,
    )


def diverges(log: Log, part: FetchPartition) -> FetchedPartition | None:
    """The answer to a reader whose last record is none of ours: where the two logs part."""
    if part.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_offset(part.last_fetched_epoch, log.end_offset)
    if end_offset < 0:
        return FetchedPartition(part.partition, ErrorCode.offset_out_of_range.value)
    if epoch < part.last_fetched_epoch or end_offset < part.fetch_offset:
        return answered(log, part, diverging_epoch=(epoch, end_offset))
    return None
