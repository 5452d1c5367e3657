"""Committed records never change and never vanish: each partition has one truth, which every later leader has.

A record is committed when a leader's high watermark passes it. Every leader must have the records committed by leaders of earlier epochs: a
leader that starts late, or continues after it was deposed, may know less than the truth, but it cannot commit at or above the start of a
later epoch. The checker looks for committed records on the disk of every member of the ISR.

Loss is allowed only where the protocol allows it: by an unclean election, of a replica that was neither in sync nor eligible, if the topic
or an operator permits it; and by the election of the last replica in sync after its machine lost the newest records of its disk, which only
eligible leader replicas with at least two in-sync replicas prevent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isthmus_broker.core.metadata.image import ELR_VERSION, ClusterImage
from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_broker.core.replica.leadership import Leadership

from tests.sim.replication.sim_log import Record, SimLog
from tests.sim.world import Violation

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimBroker, SimPartition
    from tests.sim.replication.rates import TopicPlan

NEVER = -1
NOT_KEPT: Record = (NEVER, NEVER, NEVER, NEVER)
"""A record that retention has deleted everywhere."""


@dataclass(slots=True)
class Truth:
    """The truth of one partition."""

    plan: TopicPlan
    records: list[Record] = field(default_factory=list)
    start: int = 0
    """A leader has deleted the records below: they are never read again, and logs need not have them."""
    committed: dict[int, int] = field(default_factory=dict)
    """The high watermark of the leader of each epoch."""
    starts: dict[int, int] = field(default_factory=dict)
    """The log end of the leader of each epoch when it started."""
    unclean_epoch: int = NEVER
    """Commits by leaders of earlier epochs no longer count."""
    awaits_unclean: bool = False
    """The leader of that epoch has not started yet: its log will be the truth."""
    may_elect_uncleanly: bool = False
    """An operator requested an unclean election."""
    lossy: set[int] = field(default_factory=set)
    """Brokers whose machine lost records, until they have all committed records again."""


class CommittedStays:
    def __init__(self, brokers: dict[int, SimBroker], plans: dict[str, TopicPlan]) -> None:
        self._brokers = brokers
        self.topics = {name: Truth(plan) for name, plan in plans.items()}
        self._state: dict[str, PartitionRecord] = {}
        self._elr = False

    def state(self, topic: str) -> PartitionRecord:
        """The committed metadata of the partition."""
        return self._state[topic]

    # -- elections -----------------------------------------------------------------------------------------------------------

    def committed(self, before: ClusterImage, after: ClusterImage) -> None:
        self._elr = after.feature(ELR_VERSION) > 0
        for name, topic_id in after.topics.ids.items():
            state = after.topics.by_id[topic_id].partitions[0]
            known = self._state.get(name)
            self._state[name] = state
            if known is None or state.leader_epoch == known.leader_epoch:
                continue
            if state.leader >= 0:
                self._elected(name, known, state)
            elif set(state.isr) - {*known.isr, *(known.eligible_leader_replicas or ())}:
                # A reverted reassignment left no replica in sync: a follower becomes leader when it is available.
                self._elected_uncleanly(name, known, state)

    def _elected(self, name: str, before: PartitionRecord, after: PartitionRecord) -> None:
        truth = self.topics[name]
        if after.leader in (*before.isr, *(before.eligible_leader_replicas or ())):
            return
        if set(before.removing_replicas) - set(after.replicas) and not after.leader_recovery_state:
            return  # it joined the ISR in the change that completed a reassignment
        if after.leader in (before.last_known_elr or ()) and after.leader not in truth.lossy:
            return  # it had all records as the last leader, and has lost none since
        self._elected_uncleanly(name, before, after)

    def _elected_uncleanly(self, name: str, before: PartitionRecord, after: PartitionRecord) -> None:
        truth = self.topics[name]
        if not (truth.plan.unclean or truth.may_elect_uncleanly or after.leader in (before.last_known_elr or ())):
            raise Violation(
                f"{name} is led by {after.leader} by an election that is not allowed: {before} became {after}"
            )
        truth.unclean_epoch, truth.awaits_unclean = after.leader_epoch, True

    def leads(self, partition: SimPartition, leadership: Leadership) -> None:
        truth, log, epoch = self.topics[partition.topic], partition.sim_log, leadership.leader_epoch
        if epoch < truth.unclean_epoch:
            return
        if truth.awaits_unclean:
            self._accept(truth, log)
        required = max((end for earlier, end in truth.committed.items() if earlier < epoch), default=0)
        if not _holds(log, truth, required):
            if not (log.broker_id in truth.lossy and (not self._elr or truth.plan.min_isr < 2)):
                raise Violation(
                    f"broker {log.broker_id} leads {partition.topic} in epoch {epoch} without all of the {required} "
                    f"committed records: its log end is {log.end_offset}"
                )
            truth.unclean_epoch = epoch
            self._accept(truth, log)
        _find_again(truth, log)
        truth.starts[epoch] = log.end_offset

    def _accept(self, truth: Truth, log: SimLog) -> None:
        """From now on this log is the truth."""
        same = 0
        while same < min(len(truth.records), log.end_offset) and _same(log, truth, same):
            same += 1
        del truth.records[same:]
        _find_again(truth, log)
        truth.committed.clear()
        truth.starts.clear()
        truth.awaits_unclean = False
        truth.lossy = {
            b
            for b in truth.lossy
            if (held := self._brokers[b].logs.get(log.topic)) is not None and held.end_offset < same
        }

    # -- commits -------------------------------------------------------------------------------------------------------------

    def watermark_moved(self, log: SimLog, before: int, after: int) -> None:
        if after < before:
            raise Violation(
                f"the high watermark of {log.topic} at broker {log.broker_id} falls from {before} to {after}"
            )
        truth, partition = self.topics[log.topic], self._brokers[log.broker_id].partitions.get(log.topic)
        if partition is None or self._does_not_count(truth, partition):
            return
        if partition.leader is not None:
            self._commit(truth, partition, log, after)
        elif after > len(truth.records) or not _holds(log, truth, after):
            raise Violation(f"broker {log.broker_id} shows uncommitted records of {log.topic}, below {after}")

    def _does_not_count(self, truth: Truth, partition: SimPartition) -> bool:
        return truth.awaits_unclean or partition.leadership.leader_epoch < truth.unclean_epoch

    def _commit(self, truth: Truth, partition: SimPartition, log: SimLog, end: int) -> None:
        epoch = partition.leadership.leader_epoch
        for later, start in truth.starts.items():
            if later > epoch and end > start:
                raise Violation(
                    f"broker {log.broker_id} commits {log.topic} up to {end} in epoch {epoch}: {later} began at {start}"
                )
        known = len(truth.records)
        if end > known:
            truth.records += log.records[known - log.base : end - log.base]
        if not _holds(log, truth, end):
            raise Violation(
                f"broker {log.broker_id} commits other records of {log.topic} below {end} than were committed"
            )
        truth.committed[epoch] = max(end, truth.committed.get(epoch, 0))
        if epoch == self._state[log.topic].leader_epoch:
            self._check_holders(truth, partition, log, end)

    def _check_holders(self, truth: Truth, partition: SimPartition, log: SimLog, end: int) -> None:
        """Every member of the committed ISR has the record, and there are enough members."""
        state = self._state[log.topic]
        missing = [
            replica
            for replica in state.isr
            if replica not in truth.lossy and not _has(self._brokers[replica].logs.get(log.topic), log, end - 1)
        ]
        if missing:
            raise Violation(
                f"broker {log.broker_id} commits {log.topic} up to {end}, which {missing} in sync do not have"
            )
        holders = [
            replica for replica in state.replicas if _has(self._brokers[replica].logs.get(log.topic), log, end - 1)
        ]
        if len(holders) + len(truth.lossy) < min(truth.plan.min_isr, len(partition.leadership.replicas)):
            raise Violation(f"broker {log.broker_id} commits {log.topic} up to {end}, which only {holders} have")

    def acknowledged(self, partition: SimPartition, offset: int, record: Record) -> None:
        truth = self.topics[partition.topic]
        if not self._does_not_count(truth, partition) and truth.records[offset : offset + 1] != [record]:
            raise Violation(f"{record} of {partition.topic} is acknowledged at {offset} and not committed there")

    # -- truncation and loss -------------------------------------------------------------------------------------------------

    def appended(self, log: SimLog, first: int) -> None:
        truth = self.topics[log.topic]
        if truth.lossy and log.end_offset >= len(truth.records):
            truth.lossy.discard(log.broker_id)

    def cut(self, log: SimLog, end_offset: int) -> None:
        truth, partition = self.topics[log.topic], self._brokers[log.broker_id].partitions.get(log.topic)
        if partition is None or self._does_not_count(truth, partition) or log.broker_id in truth.lossy:
            return
        state = self._state[log.topic]
        counted = (*state.isr, *(state.eligible_leader_replicas or ()))
        if partition.leadership.leader_epoch < state.leader_epoch and log.broker_id not in counted:
            return  # it follows a deposed leader, and its records do not count
        if truth.start <= end_offset < len(truth.records) and _same(log, truth, end_offset):
            raise Violation(f"broker {log.broker_id} truncates {log.topic} to {end_offset}: that record is committed")

    def machine_lost(self, log: SimLog) -> None:
        """The machine has lost the end of this log, though the leader may count some of it as replicated."""
        self.topics[log.topic].lossy.add(log.broker_id)

    def may_lose(self, broker_id: int, topic: str) -> bool:
        """Whether a machine may lose its newest records now, within the faults that the protocol tolerates."""
        truth, state = self.topics[topic], self._state[topic]
        if truth.lossy - {broker_id}:
            return False
        others = set(state.isr) - {broker_id}
        return bool(others) or (self._elr and truth.plan.min_isr >= 2)


def _find_again(truth: Truth, log: SimLog) -> None:
    """Records that a leader knows as committed are committed again, although an unclean election has lost them since."""
    known = len(truth.records)
    if log.high_watermark > known:
        truth.records += [NOT_KEPT] * (log.base - known)
        truth.records += log.records[max(known - log.base, 0) : log.high_watermark - log.base]


def _same(log: SimLog, truth: Truth, offset: int) -> bool:
    return offset < max(log.base, truth.start) or log.records[offset - log.base] == truth.records[offset]


def _has(other: SimLog | None, log: SimLog, offset: int) -> bool:
    if other is None or other.end_offset <= offset:
        return False
    return offset < other.base or other.records[offset - other.base] == log.records[offset - log.base]


def _holds(log: SimLog, truth: Truth, end: int) -> bool:
    """Whether the log has all records of the truth below `end` that were not deleted."""
    start = max(log.base, truth.start)
    return end <= log.end_offset and (
        end <= start or log.records[start - log.base : end - log.base] == truth.records[start:end]
    )
