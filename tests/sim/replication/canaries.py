"""Planted defects of replicas; the default sweep must find each of them.

They take the place of the product's cores where its replica creates one, for as long as a life runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final
from unittest.mock import patch

from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH
from isthmus_broker.core.replica import replica
from isthmus_broker.core.replica.follower import NextFetch, ReplicaFollower
from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.log_view import LogView
from isthmus_model.clocks import MonotonicMs


class HastyLeader(ReplicaLeader):
    """Everything it has appended is committed, whoever has it."""

    def high_watermark(self, log: LogView, now_ms: int) -> int:
        return log.end_offset if self.has_enough_in_sync else log.high_watermark


class StubbornFollower(ReplicaFollower):
    """It never lets its leader find out that the two logs have parted, and so never cuts its own."""

    def next_fetch(self, log: LogView, now_ms: int) -> NextFetch | None:
        fetch = super().next_fetch(log, MonotonicMs(now_ms))
        return None if fetch is None else fetch._replace(last_fetched_epoch=UNDEFINED_EPOCH)


class ForgetfulLeader(ReplicaLeader):
    """It forgets whom it proposed, and commits without those that the controller may have taken into the ISR."""

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.leadership.isr


class GenerousLeader(ReplicaLeader):
    """Observers count as members of the ISR."""

    @property
    def has_enough_in_sync(self) -> bool:
        return len({*self.leadership.isr, *self.leadership.observers}) >= self.min_isr


CANARIES: Final[Mapping[str, tuple[str, type]]] = {
    "hasty-leader": ("ReplicaLeader", HastyLeader),
    "stubborn-follower": ("ReplicaFollower", StubbornFollower),
    "forgetful-leader": ("ReplicaLeader", ForgetfulLeader),
    "generous-leader": ("ReplicaLeader", GenerousLeader),
}


def planted(canary: str | None) -> AbstractContextManager[object]:
    """The product with that defect in it, or as it is."""
    if canary is None:
        return nullcontext()
    name, defect = CANARIES[canary]
    return patch.object(replica, name, defect)
