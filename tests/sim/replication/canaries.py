"""Planted defects of replicas; the default sweep must find each of them.

They replace the product's cores, where its replica creates them, during a life.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final
from unittest.mock import patch

from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH
from isthmus_broker.core.replica import replica
from isthmus_broker.core.replica.follower import NextFetch, ReplicaFollower
from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.log_view import LogView
from isthmus_model.clocks import MonotonicMs


class HastyLeader(ReplicaLeader):
    """Counts every appended record as committed, without its replicas."""

    def high_watermark(self, log: LogView, now_ms: int) -> int:
        return log.end_offset if self.has_enough_in_sync else log.high_watermark


class StubbornFollower(ReplicaFollower):
    """Hides a divergence from the leader, and so never truncates its log."""

    def next_fetch(self, log: LogView, now_ms: int) -> NextFetch | None:
        fetch = super().next_fetch(log, MonotonicMs(now_ms))
        return None if fetch is None else fetch._replace(last_fetched_epoch=UNDEFINED_EPOCH)


class ForgetfulLeader(ReplicaLeader):
    """Forgets the proposed ISR, and commits without replicas that the controller may have accepted into it."""

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.leadership.isr


class GenerousLeader(ReplicaLeader):
    """Counts observers as members of the ISR."""

    @property
    def has_enough_in_sync(self) -> bool:
        return len({*self.leadership.isr, *self.leadership.observers}) >= self.min_isr


CANARIES: Final[Mapping[str, tuple[str, type]]] = {
    "hasty-leader": ("ReplicaLeader", HastyLeader),
    "stubborn-follower": ("ReplicaFollower", StubbornFollower),
    "forgetful-leader": ("ReplicaLeader", ForgetfulLeader),
    "generous-leader": ("ReplicaLeader", GenerousLeader),
}


def planted(canary: str) -> AbstractContextManager[object]:
    """The product with that defect."""
    name, defect = CANARIES[canary]
    return patch.object(replica, name, defect)
