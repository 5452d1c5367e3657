"""Reading many partitions for one fetch of a replica, from which their leaders learn how far it has come."""

from collections.abc import Sequence
from typing import NamedTuple

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.edge.replication.follower_session import FollowerSession
from isthmus_broker.edge.replication.partition import NO_EPOCH, Partition
from isthmus_broker.edge.replication.reader import (
    Answered,
    Find,
    ReadResult,
    ReadRules,
    answered,
    diverges,
    read_log,
    refused,
)
from isthmus_broker.edge.replication.throttles import Throttles


class ReplicaReader(NamedTuple):
    """One fetch of a replica."""

    rules: ReadRules
    broker_epoch: int
    throttles: Throttles
    is_incremental: bool
    """Partitions without news are left out of the answers: the session knows them."""

    def read(
        self,
        wanted: Sequence[tuple[Topic, FetchPartition]],
        find: Find,
        fetched_ms: MonotonicMs | None,
        session: FollowerSession | None = None,
    ) -> ReadResult:
        """Read up to the logs' ends. With `fetched_ms` the leaders learn of the fetch; one that waited has told them before."""
        answers: Answered = []
        news: list[Partition] = []
        total = 0
        is_urgent = False
        for topic, part in wanted:
            found = find(topic, part.partition)
            if isinstance(found, ErrorCode):
                answers.append((topic, FetchedPartition(part.partition, found.value, aborted=())))
                is_urgent = True
                continue
            if fetched_ms is not None:
                self._note(found, part, fetched_ms)
            answer, cannot_wait = self._read(found, part, self.rules.max_bytes - total, at_least_one=total == 0)
            is_urgent = is_urgent or cannot_wait
            if not cannot_wait and found.owes_news(self.rules.replica_id):
                news.append(found)
                if session is not None:
                    session.attach((topic, part.partition), found)
            elif session is not None and answer is None and found.is_level_with(self.rules.replica_id):
                session.has_seen((topic, part.partition), found)
            if answer is not None:
                total += sum(map(len, answer.records or ()))
                answers.append((topic, answer))
        return ReadResult(answers, total, is_urgent, news)

    def told(self, result: ReadResult) -> None:
        """The answer that was read is on its way, and with it the high watermarks."""
        for partition in result.news:
            partition.told(self.rules.replica_id)

    def _read(
        self, partition: Partition, part: FetchPartition, room: int, *, at_least_one: bool
    ) -> tuple[FetchedPartition | None, bool]:
        """The answer, if there is one to give, and whether it cannot wait."""
        refusal = self._refusal(partition, part)
        if refusal is not None:
            return refusal, True
        log, replica = partition.log, self.rules.replica_id
        assert log is not None
        if part.fetch_offset == log.end_offset or self.throttles.holds_back_reader(partition, replica):
            left_out = self.is_incremental and not partition.owes_news(replica)
            return (None if left_out else answered(log, part)), False
        answer = read_log(log, part, log.end_offset, room, at_least_one=at_least_one, read_committed=False)
        if answer.records and self.throttles.is_leader_throttled(partition):
            self.throttles.sent(sum(map(len, answer.records)))
        return answer, answer.error_code != 0

    def _note(self, partition: Partition, part: FetchPartition, fetched_ms: MonotonicMs) -> None:
        """A fetch from an offset says that everything below it is there."""
        if self._refusal(partition, part) is None:
            partition.replica_fetched(
                self.rules.replica_id, self.broker_epoch, part.fetch_offset, part.log_start_offset, fetched_ms
            )

    def _refusal(self, partition: Partition, part: FetchPartition) -> FetchedPartition | None:
        rules, epoch = self.rules, max(part.current_leader_epoch, NO_EPOCH)
        error = partition.refuses_replica(rules.replica_id, self.broker_epoch, epoch)
        if error is None and min(rules.max_bytes, part.max_bytes) < 0:
            error = ErrorCode.unknown_server_error
        log = partition.log
        if error is not None or log is None:
            code = error or ErrorCode.kafka_storage_error
            return refused(partition, part, code, names_leader=rules.names_leader)
        diverging = diverges(log, part)
        if diverging is None and not log.log_start_offset <= part.fetch_offset <= log.end_offset:
            return FetchedPartition(part.partition, ErrorCode.offset_out_of_range.value)
        return diverging
