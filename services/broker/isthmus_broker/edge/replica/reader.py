"""Reading many partitions for one fetch, and waiting when there is too little to answer."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fetch import FetchedPartition, FetchPartition
from isthmus_wire.hot import Topic

from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.disk.log import Log, OffsetOutOfRange
from isthmus_broker.edge.net.chunks import FileRange
from isthmus_broker.edge.replica.partition import NO_EPOCH, Partition

READ_COMMITTED: Final = 1
CONSUMERS: Final = (-1, -2)
"""Replica ids of readers that are no replicas: consumers, and Kafka's debugging tools."""

_ASK_ANOTHER: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
Answered = list[tuple[Topic, FetchedPartition]]


class ReadRules(NamedTuple):
    """What a fetch allows."""

    max_bytes: int
    read_committed: bool
    replica_id: int
    names_leader: bool = False


class ReadResult(NamedTuple):
    """What there is for a fetch now."""

    answers: Answered
    size: int
    has_error: bool


Find = Callable[[Topic, int], Partition | ErrorCode]


def read_partitions(wanted: Sequence[tuple[Topic, FetchPartition]], rules: ReadRules, find: Find) -> ReadResult:
    """Read in order until the response is full; the first batch found comes whole, whatever its size."""
    answers: Answered = []
    total = 0
    has_error = False
    for topic, part in wanted:
        found = find(topic, part.partition)
        if isinstance(found, ErrorCode):
            answer = FetchedPartition(part.partition, found.value, aborted=())
        else:
            answer = _read_partition(found, part, rules, rules.max_bytes - total, at_least_one=total == 0)
        has_error = has_error or answer.error_code != 0 or answer.diverging_epoch is not None
        total += sum(map(len, answer.records or ()))
        answers.append((topic, answer))
    return ReadResult(answers, total, has_error)


def _read_partition(
    partition: Partition, part: FetchPartition, rules: ReadRules, room: int, *, at_least_one: bool
) -> FetchedPartition:
    error = partition.refuses(max(part.current_leader_epoch, NO_EPOCH))
    if error is None and rules.replica_id not in CONSUMERS and not partition.has_follower(rules.replica_id):
        error = ErrorCode.not_leader_or_follower
    if error is None and min(rules.max_bytes, part.max_bytes) < 0:
        error = ErrorCode.unknown_server_error
    log = partition.log
    if error is not None or log is None:
        leadership = partition.leadership
        leader = (leadership.leader, leadership.leader_epoch) if error in _ASK_ANOTHER and rules.names_leader else None
        code = (error or ErrorCode.kafka_storage_error).value
        return FetchedPartition(part.partition, code, current_leader=leader)
    if part.last_fetched_epoch >= 0:
        verdict = _diverges(log, part)
        if isinstance(verdict, ErrorCode):
            return FetchedPartition(part.partition, verdict.value)
        if verdict is not None:
            return _answer(log, part, diverging_epoch=verdict)
    try:
        return _read_log(log, part, rules, room, at_least_one=at_least_one)
    except OffsetOutOfRange:
        return FetchedPartition(part.partition, ErrorCode.offset_out_of_range.value)
    except DiskFailure:
        return FetchedPartition(part.partition, ErrorCode.kafka_storage_error.value)


def _read_log(log: Log, part: FetchPartition, rules: ReadRules, room: int, *, at_least_one: bool) -> FetchedPartition:
    upper = log.last_stable_offset if rules.read_committed else log.high_watermark
    if rules.replica_id not in CONSUMERS:
        upper = log.end_offset
    found = log.read(part.fetch_offset, min(part.max_bytes, max(room, 0)), upper, at_least_one=at_least_one)
    records = (FileRange(found.segment, found.position, found.size),) if found.size else ()
    aborted = None
    if rules.read_committed:
        rows = log.aborted_between(part.fetch_offset, upper) if found.size else ()
        aborted = [(row.producer_id, row.first_offset) for row in rows]
    return _answer(log, part, aborted=aborted, records=records)


def _answer(
    log: Log,
    part: FetchPartition,
    *,
    aborted: Sequence[tuple[int, int]] | None = None,
    records: Sequence[FileRange] = (),
    diverging_epoch: tuple[int, int] | None = None,
) -> FetchedPartition:
    return FetchedPartition(
        part.partition,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        aborted=aborted,
        records=records,
        diverging_epoch=diverging_epoch,
    )


def _diverges(log: Log, part: FetchPartition) -> tuple[int, int] | ErrorCode | None:
    """Where the reader's log and ours part, when the reader's last record is none of ours."""
    epoch, end_offset = log.epochs.end_offset(part.last_fetched_epoch, log.end_offset)
    if end_offset < 0:
        return ErrorCode.offset_out_of_range
    if epoch < part.last_fetched_epoch or end_offset < part.fetch_offset:
        return epoch, end_offset
    return None


class WaitingFetch:
    """A fetch that found too little: it looks again when something was appended, and answers at its deadline with what there is."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        wait_ms: int,
        read: Callable[[], ReadResult],
        is_enough: Callable[[ReadResult], bool],
        answer: Callable[[ReadResult], None],
    ) -> None:
        self._partitions = partitions
        self._read = read
        self._is_enough = is_enough
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.Handle | None = None
        self._timer = self._loop.call_later(wait_ms / 1000, self._give_up)
        for partition in partitions:
            partition.watch(self.wake)

    def wake(self) -> None:
        """Look again, once, after the request that is being served now has appended all it brings."""
        if self._look is None:
            self._look = self._loop.call_soon(self._try)

    def _try(self) -> None:
        self._look = None
        result = self._read()
        if self._is_enough(result):
            self._finish(result)

    def _give_up(self) -> None:
        self._finish(self._read())

    def _finish(self, result: ReadResult) -> None:
        self.cancel()
        self._answer(result)

    def cancel(self) -> None:
        """Wait no more."""
        self._timer.cancel()
        if self._look is not None:
            self._look.cancel()
        for partition in self._partitions:
            partition.unwatch(self.wake)
