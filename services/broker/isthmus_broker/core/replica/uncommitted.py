"""Appended records whose producer waits until every in-sync replica has them (acks=all)."""

from typing import Any, NamedTuple, Self

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.replica.replica import Replica


class Uncommitted(NamedTuple):
    """Records of one partition that this leader has appended and other replicas may not have."""

    replica: Replica[Any]
    leads_since: int
    end_offset: int

    @classmethod
    def now(cls, replica: Replica[Any]) -> Self:
        """Everything in the log up to its end: exact right after an append; a repeated batch waits a little longer than necessary."""
        assert replica.leader is not None
        assert replica.log is not None
        return cls(replica, replica.leader.leads_since, replica.log.end_offset)

    def outcome(self) -> ErrorCode | None:
        """None while in-sync replicas are missing records."""
        log = self.replica.log
        if log is None:
            return ErrorCode.kafka_storage_error
        leader = self.replica.leader
        if leader is None or leader.leads_since != self.leads_since:
            return ErrorCode.not_leader_or_follower
        return leader.outcome_of(self.end_offset, log)
