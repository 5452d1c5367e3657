"""Passes the events of replicas to the checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isthmus_broker.core.replica.leadership import Leadership

from tests.sim.replication.checkers.leaders import OneLeaderPerEpoch
from tests.sim.replication.checkers.matching import LogsMatch
from tests.sim.replication.checkers.truth import CommittedStays
from tests.sim.replication.sim_log import Record, SimLog

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimPartition


class Watchers:
    def __init__(self, truth: CommittedStays, matching: LogsMatch, leaders: OneLeaderPerEpoch) -> None:
        self._truth = truth
        self._matching = matching
        self._leaders = leaders
        self.watermark_moved = truth.watermark_moved
        self.cut = truth.cut

    def appended(self, log: SimLog, first: int) -> None:
        self._matching.appended(log, first)
        self._truth.appended(log, first)

    def leads(self, partition: SimPartition, leadership: Leadership) -> None:
        self._leaders.leads(partition, leadership)
        self._truth.leads(partition, leadership)

    def acknowledged(self, partition: SimPartition, offset: int, record: Record) -> None:
        self._truth.acknowledged(partition, offset, record)
