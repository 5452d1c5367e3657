"""One partition's replica on this node: its role, the requests it refuses, its high watermark, and the requests that wait for it.

It is pure: its driver writes the log.

How to drive it:

    assume_leadership(...)        a state from the metadata log; make the returned log changes, in order, then call `update_isr_rules`
    acceptance.accept_*(...)      an append; write the batches that it returns, then call `appended`
    replica_fetched(...)          the fetch of a replica, as its leader
    follower.next_fetch(...)      and the rest of `ReplicaFollower`, as its follower
    propose(now)                  periodically: the ISR to propose to the controller, if it should change
    go_offline(), remove()        its log directory failed; it was deleted

A waiting request registers with `watch`; it is called when the high watermark, the leadership or, optionally, the log end changes.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.append_check import AppendRules, append_rules
from isthmus_broker.core.log.placement import Batch
from isthmus_broker.core.replica.follower import ReplicaFollower, Step, Wait
from isthmus_broker.core.replica.leader import ActiveEpoch, IsrProposal, ReplicaLeader
from isthmus_broker.core.replica.leadership import NO_LEADERSHIP, IsrRules, Leadership
from isthmus_broker.core.replica.log_view import ReplicaLog
from isthmus_broker.core.replica.mirror_source import MirrorRole, SourceProgress
from isthmus_broker.core.replica.open_transactions import abort_markers

NO_EPOCH: Final = -1
NO_LEADER: Final = -1
L = TypeVar("L", bound=ReplicaLog)


class Role(Enum):
    """The role of this replica in its partition."""

    NONE = "none"
    """No leader is known."""
    FOLLOWER = "follower"
    LEADER = "leader"
    OFFLINE = "offline"
    """Its log directory has failed; it stays offline until the node restarts."""
    REMOVED = "removed"


_ONLINE: Final = frozenset({Role.NONE, Role.FOLLOWER, Role.LEADER, Role.OFFLINE, Role.REMOVED})
TRANSITIONS: Final[Mapping[Role, frozenset[Role]]] = {
    Role.NONE: _ONLINE,
    Role.FOLLOWER: _ONLINE,
    Role.LEADER: _ONLINE,
    Role.OFFLINE: frozenset({Role.OFFLINE, Role.REMOVED}),
    Role.REMOVED: frozenset(),
}
"""The roles that may follow each role; in another leader epoch a replica may have the same role again."""


class BeginEpoch(NamedTuple):
    """Record in the log that this leader epoch begins at its end."""

    epoch: int


class AbortTransactions(NamedTuple):
    """Append markers that abort the transactions left open by the source of a stopped mirror topic."""

    markers: list[Batch]


LogChange = BeginEpoch | AbortTransactions | Step


class Replica(Generic[L]):
    """Leader, follower, or neither. `log` is None while it is offline."""

    __slots__ = (
        "_active",
        "_append_watchers",
        "_isr_proposed",
        "_node_id",
        "_rules",
        "_watchers",
        "follower",
        "index",
        "leader",
        "leadership",
        "log",
        "mirror",
        "role",
        "source",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        node_id: int,
        topic: str,
        index: int,
        topic_id: UUID,
        log: L | None,
        active: ActiveEpoch,
        isr_proposed: Callable[[Any, IsrProposal], None],
    ) -> None:
        """`isr_proposed` sends a proposal of this replica to the controller."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.log = log
        self.role = Role.NONE if log is not None else Role.OFFLINE
        self.leadership = NO_LEADERSHIP
        self.leader: ReplicaLeader | None = None
        self.follower: ReplicaFollower | None = None
        self.mirror: MirrorRole | None = None
        self.source = SourceProgress()
        self._active = active
        self._isr_proposed = isr_proposed
        self._node_id = node_id
        self._rules: tuple[TopicConfig, AppendRules] | None = None
        self._watchers: dict[Callable[[], None], None] = {}  # in the order of registration
        self._append_watchers: dict[Callable[[], None], None] = {}

    # -- state ---------------------------------------------------------------------------------------------------------------

    @property
    def is_led_here(self) -> bool:
        """Whether this node is the partition's leader."""
        return self.leadership.leader == self._node_id

    @property
    def current_leader(self) -> tuple[int, int]:
        """The leader's id and epoch, from the metadata log."""
        return self.leadership.leader, self.leadership.leader_epoch

    def refuses(self, current_leader_epoch: int = NO_EPOCH, *, leader_only: bool = True) -> ErrorCode | None:
        """Why a request cannot be served here, if it cannot; most requests are for the leader only."""
        if self.log is None:
            return ErrorCode.kafka_storage_error
        if current_leader_epoch != NO_EPOCH:
            if current_leader_epoch < self.leadership.leader_epoch:
                return ErrorCode.fenced_leader_epoch
            if current_leader_epoch > self.leadership.leader_epoch:
                return ErrorCode.unknown_leader_epoch
        return None if not leader_only or self.is_led_here else ErrorCode.not_leader_or_follower

    def refuses_replica(self, replica_id: int, broker_epoch: int, current_leader_epoch: int) -> ErrorCode | None:
        """Why another replica's fetch cannot be served here, if it cannot."""
        error = self.refuses(current_leader_epoch)
        if error is not None or self.leader is None:
            return error or ErrorCode.not_leader_or_follower
        return self.leader.refuses(replica_id, broker_epoch, with_leader_epoch=current_leader_epoch != NO_EPOCH)

    @property
    def is_mirror(self) -> bool:
        """Whether this is a partition of a mirror topic: its log is the source's, and no client may change it."""
        return self.mirror is not None and not self.mirror.is_stopped

    def read_only_message(self) -> str:
        """The error message for a client that tries to write to a mirror topic."""
        assert self.mirror is not None
        return f"Topic {self.topic} is a mirror topic of link '{self.mirror.link_name}': it is read-only until it is promoted."

    @property
    def append_rules(self) -> AppendRules:
        """The topic's rules for clients' batches."""
        assert self.log is not None
        config = self.log.config
        if self._rules is None or self._rules[0] is not config:
            self._rules = (config, append_rules(config))
        return self._rules[1]

    @property
    def has_uncommitted(self) -> bool:
        """Whether the log end offset is above the high watermark."""
        return self.log is not None and self.log.high_watermark < self.log.end_offset

    # -- role changes --------------------------------------------------------------------------------------------------------

    def assume_leadership(
        self, leadership: Leadership, rules: IsrRules, backoff_ms: int, now: Now
    ) -> list[LogChange] | None:
        """Take the role that the metadata log gives this replica; None for a state that is older than the current one.

        A state may be older because a response of the controller has already brought a newer one.
        """
        epoch, current = leadership.leader_epoch, self.leadership
        if (epoch, leadership.partition_epoch) < (current.leader_epoch, current.partition_epoch):
            return None
        begins = epoch != current.leader_epoch or leadership.leader != current.leader
        self.leadership = leadership
        log = self.log
        if log is None:
            return []
        if self.is_led_here:
            if begins or self.leader is None:
                return self._become_leader(log, leadership, rules, now)
            self.leader.update(leadership)
        elif begins:
            return self._become_follower(log, leadership, backoff_ms)
        return []

    def _become_leader(self, log: L, leadership: Leadership, rules: IsrRules, now: Now) -> list[LogChange]:
        """Become leader. It records the start of its epoch before it appends: readers and followers look it up."""
        self._change_role(Role.LEADER)
        self.follower = None
        self.leader = ReplicaLeader(
            self._node_id, leadership, rules, self._active, log.end_offset, now.monotonic, before=self.leader
        )
        self.source = SourceProgress()  # reports made to the former leader do not count
        changes: list[LogChange] = [] if self.is_mirror else [BeginEpoch(leadership.leader_epoch)]
        stop = None if self.mirror is None else self.mirror.stop
        markers = [] if stop is None else abort_markers(log, self.index, stop, leadership.leader_epoch, now.wall)
        return [*changes, AbortTransactions(markers)] if markers else changes

    def _become_follower(self, log: L, leadership: Leadership, backoff_ms: int) -> list[LogChange]:
        """Become follower. A former leader truncates its log according to the new leader's responses."""
        self.leader = self.follower = None
        if leadership.leader == NO_LEADER:
            self._change_role(Role.NONE)
            return []
        self._change_role(Role.FOLLOWER)
        self.follower = ReplicaFollower(leadership.leader, leadership.leader_epoch, backoff_ms)
        step = self.follower.begin(log)
        return [] if isinstance(step, Wait) else [step]

    def go_offline(self) -> None:
        """Take the replica offline: its log directory has failed."""
        self._change_role(Role.OFFLINE)
        self.log = None
        self.leader = self.follower = None

    def remove(self) -> None:
        """Release the replica: it was deleted from this node."""
        self._change_role(Role.REMOVED)
        self.leader = self.follower = None
        self.leadership = self.leadership._replace(leader=NO_LEADER)
        self.wake()

    def _change_role(self, role: Role) -> None:
        assert role in TRANSITIONS[self.role], f"{self.topic}-{self.index} cannot become {role} from {self.role}"
        self.role = role

    # -- as leader -----------------------------------------------------------------------------------------------------------

    def appended(self, now_ms: MonotonicMs) -> None:
        """Wake waiting fetches of followers, and advance the high watermark: the log has grown."""
        if self._append_watchers:
            for wake in list(self._append_watchers):
                wake()
        self.advance(now_ms)

    def advance(self, now_ms: MonotonicMs) -> None:
        """Advance the high watermark to the offset that every in-sync replica has, and wake the requests that wait for it."""
        log, leader = self.log, self.leader
        assert log is not None
        if leader is None:
            return
        high_watermark = leader.high_watermark(log, now_ms)
        if high_watermark != log.high_watermark:
            log.high_watermark = high_watermark
            if self._watchers:
                self.wake()

    def replica_fetched(
        self, replica_id: int, broker_epoch: int, offset: int, log_start: int, now_ms: MonotonicMs
    ) -> None:
        """Record that a follower, whose fetch was not refused, has all records below `offset`."""
        log, leader = self.log, self.leader
        assert log is not None
        assert leader is not None
        log_start_before = leader.progress[replica_id].log_start
        high_watermark = leader.fetched(replica_id, broker_epoch, offset, log_start, log, now_ms)
        if high_watermark != log.high_watermark:
            self.advance(now_ms)
        elif log_start_before != log_start:
            self.wake()
        if replica_id not in leader.leadership.isr:
            self.propose(now_ms)

    def needs_watermarks(self, replica_id: int) -> bool:
        """Whether this node is the leader and has not sent the replica the current watermarks."""
        return self.leader is not None and self.log is not None and self.leader.needs_watermarks(replica_id, self.log)

    def record_watermarks_sent(self, replica_id: int) -> None:
        """Record that a response with the watermarks is sent to the replica."""
        if self.leader is not None and self.log is not None:
            self.leader.record_watermarks_sent(replica_id, self.log)

    def has_caught_up(self, replica_id: int) -> bool:
        """Whether this node is the leader and the replica has all records and watermarks."""
        return self.leader is not None and self.log is not None and self.leader.has_caught_up(replica_id, self.log)

    def update_isr_rules(self, rules: IsrRules, now_ms: MonotonicMs) -> None:
        """Apply changed settings for the ISR if this node is the leader."""
        if self.leader is not None:
            self.leader.rules = rules
            self.advance(now_ms)
            self.propose(now_ms)

    def propose(self, now_ms: MonotonicMs) -> None:
        """Send a proposal to the controller if the ISR should change."""
        if (
            self.leader is None
            or self.log is None
            or (len(self.leadership.replicas) == 1 and not self.leadership.recovering)
        ):
            return
        proposal = self.leader.propose(self.log, now_ms)
        if proposal is not None:
            self._isr_proposed(self, proposal)

    def isr_changed(self, leader: ReplicaLeader, leadership: Leadership, now_ms: MonotonicMs) -> None:
        """Apply a proposal of this leader that the controller accepted."""
        if self.leader is leader and leader.update(leadership):
            self.leadership = leadership
            self.advance(now_ms)
            self.propose(now_ms)
            self.wake()

    # -- waiting requests ----------------------------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None], *, appends_too: bool = False) -> None:
        """Call `wake` when the high watermark or the leadership changes, and with `appends_too` after every append."""
        self._watchers[wake] = None
        if appends_too:
            self._append_watchers[wake] = None

    def unwatch(self, wake: Callable[[], None]) -> None:
        """Stop calling `wake`."""
        self._watchers.pop(wake, None)
        self._append_watchers.pop(wake, None)

    def wake(self) -> None:
        """Let every waiting request check again."""
        for wake in list(self._watchers):
            wake()
