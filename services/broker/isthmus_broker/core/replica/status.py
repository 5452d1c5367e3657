"""The status of every replica of a partition, as its leader reports it."""

from __future__ import annotations

from collections.abc import Iterator

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.extensions.replicas import DescribedReplica

from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.log_view import LogView
from isthmus_broker.core.replica.progress import LONG_AGO

UNKNOWN = -1


def replica_statuses(leader: ReplicaLeader, log: LogView, now_ms: MonotonicMs) -> Iterator[DescribedReplica]:
    """The replicas in the order of the assignment; the leader itself is always caught up."""
    leadership = leader.leadership
    for replica in leadership.replicas:
        is_observer = replica in leadership.observers
        progress = leader.progress.get(replica)
        yield DescribedReplica(
            broker_id=replica,
            is_leader=progress is None,
            is_observer=is_observer,
            is_isr_eligible=not is_observer,
            is_in_isr=replica in leadership.isr,
            is_caught_up=progress is None or progress.is_caught_up(log.end_offset, now_ms, leader.rules.lag_max_ms),
            last_caught_up_lag_ms=0 if progress is None else _since(progress.last_caught_up_ms, now_ms),
            last_fetch_lag_ms=0 if progress is None else _since(progress.last_fetch_ms, now_ms),
            log_start_offset=log.log_start_offset if progress is None else progress.log_start,
            log_end_offset=log.end_offset if progress is None else progress.log_end,
        )


def _since(then_ms: int, now_ms: MonotonicMs) -> int:
    return UNKNOWN if then_ms == LONG_AGO else max(0, now_ms - then_ms)
