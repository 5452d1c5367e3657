"""The leader's state of a partition: the progress of each replica, the high watermark, and the ISR to propose.

The high watermark is the least log end offset over the *maximal* ISR: the committed ISR together with the proposed one, so that it is
correct whichever of the two the controller chooses (KIP-497). It does not advance while fewer than min.insync.replicas are in sync; so a
replica that is removed from the ISR in that time remains eligible to become leader (KIP-966). Observers do not hold it back unless they
are in the ISR.

How to drive it, with `log` the leader's own log and time in milliseconds:

    fetched(...)              after a follower's fetch was read: the new high watermark
    high_watermark(log, now)  after the leader's own appends
    propose(log, now)         after the fetch of a replica outside the ISR, and periodically: what to send to the controller
    proposal_failed(...), update(...)  after the controller's response or a record of the metadata log

A proposal is in flight until the controller's response or the metadata log settles it; no second one is made meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.replica.isr import ReplicaView, target_isr
from isthmus_broker.core.replica.leadership import NO_BROKER_EPOCH, IsrRules, Leadership
from isthmus_broker.core.replica.log_view import LogView
from isthmus_broker.core.replica.progress import LONG_AGO, UNKNOWN_OFFSET, Progress

ActiveEpoch = Callable[[int], int | None]
"""The epoch of a broker that is registered, unfenced and not about to stop; None for any other."""

_BACK_TO_COMMITTED: Final = (ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica)
_METADATA_DECIDES: Final = (
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
)


class IsrProposal(NamedTuple):
    """A partition in AlterPartition; ISR members have the broker epochs of their fetches (KIP-903)."""

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int


class ReplicaLeader:
    """The leader's state for one leader epoch; each epoch has its own.

    A leader that stays leader in the very next epoch, as after the removal of a replica, keeps the recorded progress (`before`). If an
    epoch lies between, another leader may have made followers truncate their logs, so their progress is unknown. It is also unknown if a
    change of the partition was missed while the leader stayed: a replica that was removed and added again meanwhile starts with an empty
    log, in the same process.
    """

    def __init__(
        self,
        node_id: int,
        leadership: Leadership,
        rules: IsrRules,
        active: ActiveEpoch,
        epoch_start: int,
        now_ms: MonotonicMs,
        before: ReplicaLeader | None = None,
    ) -> None:
        assert leadership.leader == node_id, "only the leader keeps this state"
        self.leadership = leadership
        self.rules = rules
        self.epoch_start = epoch_start
        """The log end offset when this leader took over; earlier leaders wrote the records below it."""
        continues = before is not None and before.leadership.leader_epoch + 1 == leadership.leader_epoch
        self.leads_since: int = before.leads_since if before is not None and continues else leadership.leader_epoch
        """The first of the epochs in which this node has been leader without interruption: it has not truncated since."""
        missed_none = before is not None and before.leadership.partition_epoch + 1 == leadership.partition_epoch
        recorded = before.progress if before is not None and continues and missed_none else {}
        self.progress: dict[int, Progress] = {}
        for replica in leadership.replicas:
            if replica != node_id:
                progress = self.progress[replica] = recorded.get(replica) or Progress()
                progress.caught_up_ms = now_ms if replica in leadership.isr else LONG_AGO
                # A follower ignores responses to fetches of an earlier epoch, so send all watermarks again.
                progress.sent_high_watermark = progress.sent_log_start = UNKNOWN_OFFSET
        self.in_flight: IsrProposal | None = None
        self._node_id = node_id
        self._active = active

    # -- state ---------------------------------------------------------------------------------------------------------------

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, but at most the number of replicas."""
        return min(self.rules.min_isr, len(self.leadership.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether acks=all can be guaranteed."""
        return len(self.leadership.isr) >= self.min_isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Every replica that may be in the ISR, whatever the controller decides."""
        committed = self.leadership.isr
        if self.in_flight is None:
            return committed
        return committed + tuple(replica for replica, _ in self.in_flight.isr if replica not in committed)

    def is_high_watermark_current(self, log: LogView) -> bool:
        """False until the high watermark has reached this leader's epoch: records above it may have been committed by an earlier leader."""
        return log.high_watermark >= self.epoch_start

    def outcome_of(self, offset: int, log: LogView) -> ErrorCode | None:
        """The outcome for a producer that waits until everything below `offset` is committed; None while it waits."""
        if log.high_watermark < offset:
            return None
        return ErrorCode.none if self.has_enough_in_sync else ErrorCode.not_enough_replicas_after_append

    def low_watermark(self, log: LogView) -> int:
        """The lowest log start offset of the replicas whose brokers are active."""
        active = [
            progress.log_start for replica, progress in self.progress.items() if self._active(replica) is not None
        ]
        return min([log.log_start_offset, *active])

    # -- fetches -------------------------------------------------------------------------------------------------------------

    def refuses(self, replica_id: int, broker_epoch: int, *, with_leader_epoch: bool) -> ErrorCode | None:
        """Why a replica's fetch is not served, if it is not.

        A broker that is not a replica, but has the current leader epoch, may have received its assignment before this leader: it retries.
        """
        if replica_id not in self.progress:
            return ErrorCode.unknown_leader_epoch if with_leader_epoch else ErrorCode.not_leader_or_follower
        registered = self._active(replica_id)
        if broker_epoch != NO_BROKER_EPOCH and registered is not None and broker_epoch < registered:
            return ErrorCode.not_leader_or_follower  # from an earlier registration of that broker
        return None

    def fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start: int, log: LogView, now_ms: MonotonicMs
    ) -> int:
        """Record a replica's fetch from `offset`, which is in the log and does not diverge; returns the new high watermark."""
        progress = self.progress[replica_id]
        before = progress.log_end
        progress.broker_epoch = broker_epoch
        progress.fetched(offset, log_start, log.end_offset, now_ms)
        return log.high_watermark if offset == before else self.high_watermark(log, now_ms)

    def forget_watermarks_sent(self, replica_id: int) -> None:
        """Send the watermarks again: the replica may not have received them."""
        if (progress := self.progress.get(replica_id)) is not None:
            progress.sent_high_watermark = progress.sent_log_start = UNKNOWN_OFFSET

    def record_watermarks_sent(self, replica_id: int, log: LogView) -> None:
        """Record that a response with the log's watermarks is sent to the replica."""
        progress = self.progress[replica_id]
        progress.sent_high_watermark, progress.sent_log_start = log.high_watermark, log.log_start_offset

    def needs_watermarks(self, replica_id: int, log: LogView) -> bool:
        """Whether the replica has not been sent the current watermarks; a waiting fetch then gets a response soon (KIP-392)."""
        progress = self.progress[replica_id]
        return progress.sent_high_watermark < log.high_watermark or progress.sent_log_start != log.log_start_offset

    def has_caught_up(self, replica_id: int, log: LogView) -> bool:
        """Whether the replica has all records and watermarks, so that it need not be read again before something changes.

        A replica that should join the ISR is read anyway: each of its fetches may let it join.
        """
        progress, leadership = self.progress[replica_id], self.leadership
        return (
            progress.log_end == log.end_offset
            and progress.high_watermark == log.high_watermark
            and not self.needs_watermarks(replica_id, log)
            and (replica_id in leadership.isr or replica_id in leadership.observers)
        )

    def high_watermark(self, log: LogView, now_ms: MonotonicMs) -> int:
        """The current high watermark; it never moves back."""
        if not self.progress:
            return log.end_offset
        if not self.has_enough_in_sync:
            return log.high_watermark
        members, least = self.maximal_isr, log.end_offset
        for replica, progress in self.progress.items():
            if progress.log_end < least and (replica in members or self._is_joining(replica, progress, log, now_ms)):
                least = progress.log_end
        return max(least, log.high_watermark)

    def _is_joining(self, replica: int, progress: Progress, log: LogView, now_ms: MonotonicMs) -> bool:
        """Whether a sync replica is about to rejoin the ISR. It holds the high watermark back, so that it can reach it."""
        return (
            replica not in self.leadership.observers
            and progress.is_caught_up(log.end_offset, now_ms, self.rules.lag_max_ms)
            and self._is_eligible(replica, progress)
        )

    def _is_eligible(self, replica: int, progress: Progress) -> bool:
        """Whether the controller would accept it: its broker is active, with the broker epoch of its fetches (KIP-903)."""
        epoch = self._active(replica)
        return epoch is not None and progress.broker_epoch in (NO_BROKER_EPOCH, epoch)

    # -- the ISR -------------------------------------------------------------------------------------------------------------

    def propose(self, log: LogView, now_ms: MonotonicMs) -> IsrProposal | None:
        """The ISR to propose, if it should change and no proposal is in flight; it counts as sent."""
        if self.in_flight is not None:
            return None
        leadership = self.leadership
        target = leadership.isr
        if not leadership.recovering:  # otherwise the leader, alone in the ISR, first reports that it has recovered
            target = target_isr(self._node_id, leadership, self.rules, self.min_isr, self._views(log, now_ms))
            if target == leadership.isr:
                return None
        own = self._active(self._node_id)
        epochs = {self._node_id: NO_BROKER_EPOCH if own is None else own}
        members = tuple((r, epochs[r] if r in epochs else self.progress[r].broker_epoch) for r in target)
        for replica in target:
            if replica not in leadership.isr:
                self.progress[replica].proposed_ms = now_ms
        self.in_flight = IsrProposal(members, leadership.leader_epoch, leadership.partition_epoch)
        return self.in_flight

    def _views(self, log: LogView, now_ms: MonotonicMs) -> Iterator[ReplicaView]:
        lag_max = self.rules.lag_max_ms
        reach = max(log.high_watermark, self.epoch_start)
        for replica, progress in self.progress.items():
            # A replica joins the ISR at the high watermark and has replica.lag.time.max.ms to reach the log end. Without that time it would
            # be removed at once, join with its next fetch, and so on while producers write faster than it reads.
            caught_up = (
                progress.is_caught_up(log.end_offset, now_ms, lag_max) or now_ms - progress.proposed_ms <= lag_max
            )
            fetches = now_ms - progress.last_fetch_ms <= lag_max
            may_join = fetches and progress.log_end >= reach and self._is_eligible(replica, progress)
            yield ReplicaView(replica, progress.log_end, caught_up, may_join)

    def proposal_failed(self, proposal: IsrProposal, error: ErrorCode, *, has_lost_copy: bool) -> bool:
        """The controller refused a proposal, or its outcome is unknown; returns whether to send it again.

        One that may have been accepted stays in flight, and counts for the high watermark, until the metadata log settles it. A refusal
        settles nothing while another copy of the request has had no response: that copy may still be granted.
        """
        if proposal is not self.in_flight or error in _METADATA_DECIDES:
            return False
        if error in _BACK_TO_COMMITTED and not has_lost_copy:
            self.in_flight = None
            return False
        return True

    def update(self, leadership: Leadership) -> bool:
        """Apply a committed state of this leader epoch, from the controller's response or the metadata log; False if not newer."""
        assert leadership.leader_epoch == self.leadership.leader_epoch, "another epoch has another state"
        if leadership.partition_epoch <= self.leadership.partition_epoch:
            return False
        self.leadership = leadership
        self.in_flight = None
        self.progress = {
            replica: self.progress.get(replica) or Progress()
            for replica in leadership.replicas
            if replica != self._node_id
        }
        return True
