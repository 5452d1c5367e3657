"""The timers of a streams group's members, and the fencing of members."""

from collections.abc import Callable

from isthmus_model.clocks import Now

from isthmus_broker.core.coordinator.result import NOTHING, Result
from isthmus_broker.core.coordinator.timers import Key
from isthmus_broker.core.group.config import TIMER_RETRY_MS
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.member import MemberState, StreamsMember, tombstones


def _session_key(group_id: str, member_id: str) -> Key:
    return ("streams session", group_id, member_id)


def _rebalance_key(group_id: str, member_id: str) -> Key:
    return ("streams rebalance", group_id, member_id)


class StreamsSessions:
    """Timeouts of members; each ends in fencing."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def restart(self, group: StreamsGroup, now: Now) -> None:
        """Start the timers of a loaded group: every member has a full session."""
        for member in group.members.values():
            self.restart_session(group.group_id, member.member_id, now)
            self.watch_revocation(group.group_id, member, now)

    def restart_session(self, group_id: str, member_id: str, now: Now) -> None:
        """Restart the member's session timeout."""
        key = _session_key(group_id, member_id)
        timeout_ms = self._registry.configs.streams_session_timeout_ms(group_id)
        self._schedule(key, now.monotonic + timeout_ms, "session expired", lambda member: True)

    def watch_revocation(self, group_id: str, member: StreamsMember, now: Now) -> None:
        """Start or cancel the rebalance timeout: it applies to members that must revoke tasks."""
        key = _rebalance_key(group_id, member.member_id)
        if member.state != MemberState.UNREVOKED_TASKS:
            self._registry.timers.cancel(key)
            return
        epoch = member.epoch
        due_ms = now.monotonic + member.rebalance_timeout_ms
        self._schedule(key, due_ms, "did not revoke tasks in time", lambda current: current.epoch == epoch)

    def _schedule(self, key: Key, due_ms: int, reason: str, still: Callable[[StreamsMember], bool]) -> None:
        self._registry.timers.schedule(key, due_ms, lambda now: self._fence_later(key, reason, still), TIMER_RETRY_MS)

    def _fence_later(self, key: Key, reason: str, still: Callable[[StreamsMember], bool]) -> Result:
        _, group_id, member_id = key
        group = self._registry.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, StreamsGroup) else None
        if not isinstance(group, StreamsGroup) or not isinstance(member, StreamsMember) or not still(member):
            return NOTHING
        self._registry.outbox.note("member fenced", group_id, f"{member_id} {reason}")
        return self.fence(group, member, None)

    def fence(self, group: StreamsGroup, member: StreamsMember, response: object | None) -> Result:
        """Remove a member. Its tasks are free once its tombstones are appended."""
        for key in (_session_key, _rebalance_key):
            self._registry.timers.cancel(key(group.group_id, member.member_id))
        records = (*tombstones(group.group_id, member.member_id), group.epoch_record(group.epoch + 1))
        return Result(records=records, response=response)
