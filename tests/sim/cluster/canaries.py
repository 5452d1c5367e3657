"""Planted defects of the product, each with the violation that it must cause. A sweep that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple
from unittest.mock import patch

from isthmus_broker.core.group import shard as group_shard
from isthmus_broker.core.group.offsets import Offsets
from isthmus_broker.core.group.records import OffsetCommitKey, OffsetCommitValue
from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH
from isthmus_broker.core.log.producer_state import ProducerState
from isthmus_broker.core.replica import replica
from isthmus_broker.core.replica.follower import NextFetch, ReplicaFollower
from isthmus_broker.core.replica.leader import ReplicaLeader
from isthmus_broker.core.replica.log_view import LogView
from isthmus_broker.core.transaction import producers
from isthmus_broker.core.transaction import shard as transaction_shard
from isthmus_broker.core.transaction.markers import OutstandingMarkers
from isthmus_broker.core.transaction.records import Transaction
from isthmus_broker.core.transaction.requests import InitProducer, NeedsProducerId, Outcome
from isthmus_broker.edge.quorum.metadata_log import MetadataLogStore
from isthmus_model.clocks import MonotonicMs, WallMs

from tests.sim.cluster.plan import NO_FAULTS, Rates


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


def _init_without_fencing(
    before: Transaction | None, request: InitProducer, now_ms: WallMs, version: int
) -> Transaction | Outcome | NeedsProducerId:
    """Give a new producer the epoch of the one before, whose transaction it leaves open."""
    if before is None:
        return producers.init(before, request, now_ms, version)
    return Outcome(producer=before.producer)


class HastyMarkers(OutstandingMarkers):
    """Releases decisions that are not committed yet."""

    def release(self, high_watermark: int) -> list[tuple[str, Transaction]]:
        return super().release(1 << 60)


class HastyOffsets(Offsets):
    """Lets offsets of open transactions take effect."""

    def replay_pending(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue, offset: int) -> None:
        self.replay(key, value, offset)


def _everything_is_stable(_state: ProducerState, _high_watermark: int) -> int | None:
    """Ignore open transactions."""
    return None


def _no_flush(_store: MetadataLogStore) -> None:
    """Leave the metadata log in the page cache."""


class Canary(NamedTuple):
    """A defect."""

    owner: object
    name: str
    defect: object
    violations: tuple[str, ...]
    """The finding begins with one of these names."""
    rates: Rates
    """Faults that bring the defect to light soon."""
    has_transactions: bool | None = None
    """Whether the lives have transactions, which else the seed decides."""
    begins_at: int = 0
    """A seed that finds it, where the search begins."""


_FAILOVERS: Final = Rates(
    kill_every=2.0,
    cut_every=1.0,
    slow_every=1.0,
    pause_every=1.5,
    down_max=0.5,
    pause_max=1.5,
    cut_max=2.0,
    one_way=0.5,
)
_ONE_WAY: Final = Rates(cut_every=0.5, cut_max=2.0, one_way=1.0, kill_every=0.7, down_max=0.5)
"""Leaders whose messages arrive while none reaches them, until they are killed."""
_LEAVINGS: Final = Rates(slow_every=0.4, pause_every=0.6, pause_max=1.2)
"""Replicas that leave the ISR and return, while responses of the controller take long."""
_POWER: Final = Rates(power_every=1.5, site_every=2.0, operate_every=0.5, down_max=0.5)

CANARIES: Final[Mapping[str, Canary]] = {
    "hasty-leader": Canary(
        replica, "ReplicaLeader", HastyLeader, ("missing-in-sync", "lost-write", "inconsistent-offsets"), _FAILOVERS
    ),
    "stubborn-follower": Canary(
        replica, "ReplicaFollower", StubbornFollower, ("inconsistent-offsets", "not-whole"), _FAILOVERS
    ),
    "forgetful-leader": Canary(
        replica, "ReplicaLeader", ForgetfulLeader, ("missing-in-sync", "lost-write"), _LEAVINGS, begins_at=6
    ),
    "generous-leader": Canary(
        replica, "ReplicaLeader", GenerousLeader, ("under-replicated", "lost-write"), _FAILOVERS, begins_at=20
    ),
    "no-fencing": Canary(
        transaction_shard,
        "init",
        _init_without_fencing,
        ("torn-transaction", "lost-write", "copied-twice", "copy-out-of-order", "nonmonotonic-send", "duplicate"),
        _FAILOVERS,
        has_transactions=True,
    ),
    "hasty-markers": Canary(
        transaction_shard,
        "OutstandingMarkers",
        HastyMarkers,
        ("torn-transaction", "lost-write", "aborted-read"),
        _ONE_WAY,
        has_transactions=True,
        begins_at=542,
    ),
    "hasty-offsets": Canary(group_shard, "Offsets", HastyOffsets, ("copy-skipped",), NO_FAULTS, has_transactions=True),
    "unstable-reads": Canary(
        ProducerState,
        "first_unstable_offset",
        _everything_is_stable,
        ("precommitted-read", "aborted-read"),
        NO_FAULTS,
        has_transactions=True,
    ),
    "unsynced-metadata": Canary(
        MetadataLogStore, "flush", _no_flush, ("lost-topic", "lost-write", "inconsistent-offsets"), _POWER
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with that defect."""
    canary = CANARIES[name]
    with patch.object(canary.owner, canary.name, canary.defect):
        yield
