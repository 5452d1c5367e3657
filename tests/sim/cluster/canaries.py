"""Planted defects of the product, each with the violation that it must cause. A sweep that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple
from unittest.mock import patch

from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH
from isthmus_broker.core.replica import replica
from isthmus_broker.core.replica.follower import NextFetch, ReplicaFollower
from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.log_view import LogView
from isthmus_broker.edge.quorum.metadata_log import MetadataLogStore
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


def _no_flush(_store: MetadataLogStore) -> None:
    """Leave the metadata log in the page cache."""


class Canary(NamedTuple):
    """A defect."""

    owner: object
    name: str
    defect: object
    violations: tuple[str, ...]
    """The finding begins with one of these names."""


CANARIES: Final[Mapping[str, Canary]] = {
    "hasty-leader": Canary(
        replica, "ReplicaLeader", HastyLeader, ("missing-in-sync", "lost-write", "inconsistent-offsets")
    ),
    "stubborn-follower": Canary(replica, "ReplicaFollower", StubbornFollower, ("inconsistent-offsets", "not-whole")),
    "forgetful-leader": Canary(replica, "ReplicaLeader", ForgetfulLeader, ("missing-in-sync", "lost-write")),
    "generous-leader": Canary(replica, "ReplicaLeader", GenerousLeader, ("under-replicated", "lost-write")),
    "unsynced-metadata": Canary(MetadataLogStore, "flush", _no_flush, ("lost-write", "inconsistent-offsets")),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with that defect."""
    canary = CANARIES[name]
    with patch.object(canary.owner, canary.name, canary.defect):
        yield
