"""Produce requests with acks=all: answered when every in-sync replica has the records."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.produce import ProduceResult

from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.replication.waiting import Waiting
from isthmus_broker.edge.transport.connection import Request

Key = tuple[Topic, int]
Outcomes = dict[Key, ErrorCode]


class Uncommitted(NamedTuple):
    """Records of one partition that this leader has appended and others may lack."""

    partition: Partition
    leads_since: int
    end_offset: int

    @classmethod
    def now(cls, partition: Partition) -> Self:
        """Everything the log holds: for what was appended just now that is exact, a repeat waits a little longer than it had to."""
        assert partition.leader is not None
        assert partition.log is not None
        return cls(partition, partition.leader.leads_since, partition.log.end_offset)

    def outcome(self) -> ErrorCode | None:
        """None while replicas are missing."""
        log = self.partition.log
        if log is None:
            return ErrorCode.kafka_storage_error
        leader = self.partition.leader
        if leader is None or leader.leads_since != self.leads_since:
            return ErrorCode.not_leader_or_follower
        return leader.outcome_of(self.end_offset, log)


def wait_for_commit(
    request: Request,
    timeout_ms: int,
    topics: list[tuple[Topic, list[ProduceResult]]],
    uncommitted: Mapping[Key, Uncommitted],
    reply: Callable[[], None],
) -> None:
    """Complete the results and reply when all is committed, or has failed, or the time is over."""
    settled: Outcomes = {}

    def look() -> Outcomes:
        for key, one in uncommitted.items():
            if key not in settled and (outcome := one.outcome()) is not None:
                settled[key] = outcome
        return settled

    def is_complete(outcomes: Outcomes) -> bool:
        return len(outcomes) == len(uncommitted)

    def answer(outcomes: Outcomes) -> None:
        for topic, results in topics:
            for number, result in enumerate(results):
                key = (topic, result.partition)
                if key in uncommitted:
                    error = outcomes.get(key, ErrorCode.request_timed_out)
                    leader = (
                        uncommitted[key].partition.leader_now if error is ErrorCode.not_leader_or_follower else None
                    )
                    results[number] = result._replace(error_code=error.value, current_leader=leader)
        reply()

    partitions = [one.partition for one in uncommitted.values()]
    waiting = Waiting(partitions, timeout_ms, look, is_complete, answer)
    request.defer(waiting.cancel)
