"""The rebalance of a classic group, from its start to the assignments of all members, with its timers.

Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
          members join            the leader's SyncGroup   ▲
                                  has the assignments ─────┘ once committed
"""

from collections.abc import Callable

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from kio.schema.join_group.v9.response import JoinGroupResponseMember

from isthmus_broker.core.coordinator.result import NOTHING, Result
from isthmus_broker.core.coordinator.timers import Key
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicMember, ClassicState
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.responses import join_response, sync_response


def heartbeat_key(group_id: str, member_id: str) -> Key:
    """The timer of a member's session."""
    return ("heartbeat", group_id, member_id)


def _join_key(group_id: str) -> Key:
    return ("join", group_id)


def _sync_key(group_id: str) -> Key:
    return ("sync", group_id)


def keep_memory() -> None:
    """In place of replay: a classic group's memory is ahead of its records."""


class Rebalance:
    """The steps of the rebalance. A step may lead to the next one."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._timers = registry.timers

    def forget(self, group_id: str) -> None:
        """The group was removed or converted."""
        self._timers.cancel(_join_key(group_id))
        self._timers.cancel(_sync_key(group_id))

    # Joining.

    def prepare(self, group: ClassicGroup, reason: str, now: Now) -> Result:
        """Start a rebalance: all members must join again."""
        if group.state == ClassicState.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.rebalance_in_progress, now)
        group.pending_syncs.clear()
        self._timers.cancel(_sync_key(group.group_id))
        self._registry.outbox.note("rebalance", group.group_id, reason)
        is_initial = group.state == ClassicState.EMPTY
        group.move(ClassicState.PREPARING_REBALANCE, now)
        if is_initial:
            delay_ms = self._registry.config.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._wait_for_more(group.group_id, delay_ms, remaining_ms, now)
            return NOTHING
        if group.all_joined:
            return self._complete_join(group, now)
        self._schedule_join_end(group, now)
        return NOTHING

    def prepare_or_complete(self, group: ClassicGroup, reason: str, now: Now) -> Result:
        """Start a rebalance, or check whether the current one can complete."""
        return self.prepare(group, reason, now) if group.can_rebalance else self.maybe_complete_join(group, now)

    def maybe_complete_join(self, group: ClassicGroup, now: Now) -> Result:
        """End the join phase once all members have joined; the initial one waits for its timeout."""
        waits = group.state == ClassicState.PREPARING_REBALANCE and group.previous_state != ClassicState.EMPTY
        return self._complete_join(group, now) if waits and group.all_joined else NOTHING

    def complete_if_all_joined(self, group: ClassicGroup, now: Now) -> Result:
        """End the join phase, including the initial one, if there is no member left to wait for."""
        ready = group.state == ClassicState.PREPARING_REBALANCE and group.all_joined
        return self._complete_join(group, now) if ready else NOTHING

    def _wait_for_more(self, group_id: str, delay_ms: int, remaining_ms: int, now: Now) -> None:
        """group.initial.rebalance.delay.ms: the first rebalance waits for more members, longer while they keep coming."""

        def wait_again_or_complete(now: Now) -> Result:
            group = self._registry.find_classic(group_id)
            if group is None or group.state != ClassicState.PREPARING_REBALANCE:
                return NOTHING
            if not group.new_member_added or remaining_ms == 0:
                return self._complete_join(group, now)
            group.new_member_added = False
            next_delay_ms = min(self._registry.config.group_initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more(group_id, next_delay_ms, max(remaining_ms - delay_ms, 0), now)
            return NOTHING

        self._timers.schedule(_join_key(group_id), now.monotonic + delay_ms, wait_again_or_complete)

    def _schedule_join_end(self, group: ClassicGroup, now: Now) -> None:
        group_id = group.group_id

        def complete(now: Now) -> Result:
            current = self._registry.find_classic(group_id)
            if current is None or current.state != ClassicState.PREPARING_REBALANCE:
                return NOTHING
            return self._complete_join(current, now)

        self._timers.schedule(_join_key(group_id), now.monotonic + group.rebalance_timeout_ms, complete)

    def _complete_join(self, group: ClassicGroup, now: Now) -> Result:
        """End the join phase: remove members that have not joined, except static ones."""
        self._timers.cancel(_join_key(group.group_id))
        for member in [
            member for member in group.members.values() if member.joining is None and not member.instance_id
        ]:
            group.remove(member.member_id)
            self._timers.cancel(heartbeat_key(group.group_id, member.member_id))
        if not group.elect_joined_leader() and group.members:
            self._schedule_join_end(group, now)  # only absent static members remain: none of them can be the leader
            return NOTHING
        group.next_generation(now)
        if group.state == ClassicState.EMPTY:
            return Result(records=(group.record(lambda member: member.assignment),), apply=keep_memory)
        for member in list(group.members.values()):
            self._respond_joined(group, member)
            self.restart_session(group, member, now)
            member.is_new = False
            group.pending_syncs.add(member.member_id)
        self._schedule_sync_end(group, now)
        return NOTHING

    def _respond_joined(self, group: ClassicGroup, member: ClassicMember) -> None:
        parked = group.take_join(member)
        if parked is None:
            return
        self._registry.outbox.reply(
            parked.token,
            join_response(
                parked.api_version,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                leader=group.leader,
                members=joined_members(group) if group.leader == member.member_id else (),
            ),
        )

    def refuse_join(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode, member_id: str) -> None:
        """Respond to a member's parked JoinGroup, if any, with an error."""
        parked = group.take_join(member)
        if parked is not None:
            response = join_response(parked.api_version, error=error, member_id=member_id)
            self._registry.outbox.reply(parked.token, response)

    # Syncing.

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        """Record a member's SyncGroup."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(_sync_key(group.group_id))

    def set_assignments(self, group: ClassicGroup, assignments: dict[str, bytes], now: Now) -> None:
        """Respond to all parked requests."""
        assert group.state == ClassicState.COMPLETING_REBALANCE
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._propagate(group, ErrorCode.none, now)

    def reset_assignments(self, group: ClassicGroup, error: ErrorCode, now: Now) -> None:
        """Respond to all parked requests with an error."""
        assert group.state == ClassicState.COMPLETING_REBALANCE
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error, now)

    def refuse_sync(self, member: ClassicMember, error: ErrorCode) -> bool:
        """Respond to a member's parked SyncGroup, if any, with an error."""
        parked, member.syncing = member.syncing, None
        if parked is not None:
            self._registry.outbox.reply(parked.token, sync_response(error))
        return parked is not None

    def _propagate(self, group: ClassicGroup, error: ErrorCode, now: Now) -> None:
        for member in group.members.values():
            if self._respond_sync(group, member, error):
                self.restart_session(group, member, now)

    def _respond_sync(self, group: ClassicGroup, member: ClassicMember, error: ErrorCode) -> bool:
        if error != ErrorCode.none:
            return self.refuse_sync(member, error)
        parked, member.syncing = member.syncing, None
        if parked is not None:
            response = sync_response(error, member.assignment, group.protocol_type, group.protocol)
            self._registry.outbox.reply(parked.token, response)
        return parked is not None

    def _schedule_sync_end(self, group: ClassicGroup, now: Now) -> None:
        """Remove members that joined but have not sent SyncGroup in time."""
        group_id, generation = group.group_id, group.generation

        def expire(now: Now) -> Result:
            current = self._registry.find_classic(group_id)
            if current is None or current.generation != generation or not current.pending_syncs:
                return NOTHING
            if current.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
                return NOTHING
            late = sorted(current.pending_syncs)
            for member_id in late:
                self.remove(current, current.members[member_id])
            return self.prepare(current, f"members {', '.join(late)} did not sync in time", now)

        self._timers.schedule(_sync_key(group_id), now.monotonic + group.rebalance_timeout_ms, expire)

    # Sessions.

    def restart_session(
        self, group: ClassicGroup, member: ClassicMember, now: Now, timeout_ms: int | None = None
    ) -> None:
        """Restart the member's session timeout."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        self.expect(group.group_id, member.member_id, now.monotonic + timeout_ms)

    def expect(self, group_id: str, member_id: str, due_ms: int) -> None:
        """Remove a member, or a pending one, when its session times out."""
        self._timers.schedule(heartbeat_key(group_id, member_id), due_ms, self._expiry(group_id, member_id))

    def _expiry(self, group_id: str, member_id: str) -> Callable[[Now], Result]:
        def expire(now: Now) -> Result:
            group = self._registry.find_classic(group_id)
            if group is None:
                return NOTHING
            if member_id in group.pending_joins:
                group.remove(member_id)
                return self.complete_if_all_joined(group, now)
            member = group.members.get(member_id)
            if member is None or member.has_parked_request:
                return NOTHING
            self.remove(group, member)
            return self._after_removal(group, f"session of member {member_id} expired", now)

        return expire

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member, with responses to its parked requests."""
        self._timers.cancel(heartbeat_key(group.group_id, member.member_id))
        self.refuse_join(group, member, ErrorCode.unknown_member_id, "")
        self.refuse_sync(member, ErrorCode.unknown_member_id)
        group.remove(member.member_id)

    def _after_removal(self, group: ClassicGroup, reason: str, now: Now) -> Result:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.prepare(group, reason, now)
        return self.complete_if_all_joined(group, now)


def joined_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """The leader's view of the members, for its assignment."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in group.members.values()
    ]
