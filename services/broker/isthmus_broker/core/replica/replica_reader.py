"""Reads the partitions of a replica's fetch, and records its progress at their leaders."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import FetchedPartition, FetchPartition

from isthmus_broker.core.replica.consumer_reader import Find, ReadLog, ReadResult, ReadRules, Responses, absent, refused
from isthmus_broker.core.replica.fetch_position import check_position, response
from isthmus_broker.core.replica.follower_session import FollowerSession
from isthmus_broker.core.replica.replica import NO_EPOCH, Replica
from isthmus_broker.core.replica.throttles import Throttles


class ReplicaReader(NamedTuple):
    """One fetch of a replica."""

    rules: ReadRules
    broker_epoch: int
    throttles: Throttles
    read_log: ReadLog
    is_incremental: bool
    """The response omits partitions without changes, because the session has them."""

    def read(
        self,
        partitions: Sequence[tuple[Topic, FetchPartition]],
        find: Find,
        now_ms: MonotonicMs,
        session: FollowerSession | None = None,
        *,
        is_new: bool = False,
    ) -> ReadResult:
        """Read up to the log ends. Only a new fetch counts as progress; a waiting fetch that is read again was counted before."""
        responses: Responses = []
        behind: list[Replica[Any]] = []
        total = 0
        is_urgent = False
        for topic, part in partitions:
            replica = find(topic, part.partition)
            if isinstance(replica, ErrorCode):
                responses.append((topic, absent(topic, part, replica, self.rules)))
                is_urgent = True
                continue
            if is_new:
                self._record_progress(replica, part, now_ms)
            fetched, cannot_wait = self._read(
                replica, part, self.rules.max_bytes - total, now_ms, at_least_one=total == 0
            )
            is_urgent = is_urgent or cannot_wait
            if not cannot_wait and replica.needs_watermarks(self.rules.replica_id):
                behind.append(replica)
                if session is not None:
                    session.attach((topic, part.partition), replica)
            elif session is not None and fetched is None and replica.has_caught_up(self.rules.replica_id):
                session.clear((topic, part.partition), replica)
            if fetched is not None:
                total += sum(map(len, fetched.records or ()))
                responses.append((topic, fetched))
        return ReadResult(responses, total, is_urgent, behind)

    def record_watermarks_sent(self, result: ReadResult) -> None:
        """Record that the response, with its high watermarks, is sent."""
        for replica in result.behind:
            replica.record_watermarks_sent(self.rules.replica_id)

    def _read(
        self, replica: Replica[Any], part: FetchPartition, room: int, now_ms: MonotonicMs, *, at_least_one: bool
    ) -> tuple[FetchedPartition | None, bool]:
        """The response, if there is one to send, and whether it cannot wait."""
        refusal = self._refuse(replica, part)
        if refusal is not None:
            return refusal, True
        log, replica_id = replica.log, self.rules.replica_id
        assert log is not None
        if part.fetch_offset == log.end_offset or self.throttles.holds_back_reader(replica, replica_id, now_ms):
            left_out = self.is_incremental and not replica.needs_watermarks(replica_id)
            return (None if left_out else response(log, part)), False
        fetched = self.read_log(replica, part, log.end_offset, room, at_least_one=at_least_one, read_committed=False)
        assert isinstance(fetched, FetchedPartition), "replicas read local segments only"
        if fetched.records and self.throttles.is_leader_throttled(replica):
            self.throttles.record_sent(sum(map(len, fetched.records)), now_ms)
        return fetched, fetched.error_code != 0

    def _record_progress(self, replica: Replica[Any], part: FetchPartition, now_ms: MonotonicMs) -> None:
        """Record that the replica has all records below the offset of its fetch."""
        if self._refuse(replica, part) is None:
            replica.replica_fetched(
                self.rules.replica_id, self.broker_epoch, part.fetch_offset, part.log_start_offset, now_ms
            )

    def _refuse(self, replica: Replica[Any], part: FetchPartition) -> FetchedPartition | None:
        rules, epoch = self.rules, max(part.current_leader_epoch, NO_EPOCH)
        error = replica.refuses_replica(rules.replica_id, self.broker_epoch, epoch)
        if error is None and min(rules.max_bytes, part.max_bytes) < 0:
            error = ErrorCode.unknown_server_error
        log = replica.log
        if error is not None or log is None:
            code = error or ErrorCode.kafka_storage_error
            return refused(replica, part, code, names_leader=rules.names_leader)
        return check_position(log, part)
