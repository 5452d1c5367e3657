"""The timers of a consumer group's members, and the fencing of members."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from isthmus_model.clocks import Now

from isthmus_broker.core.coordinator.result import NOTHING, Record, Result
from isthmus_broker.core.coordinator.timers import Key
from isthmus_broker.core.group.config import TIMER_RETRY_MS
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.errors import UnknownGroup
from isthmus_broker.core.group.member import ConsumerMember, MemberState, tombstones
from isthmus_broker.core.group.migration import Migration
from isthmus_broker.core.group.records import ConsumerGroupRegularExpressionKey
from isthmus_broker.core.group.registry import Registry


def _session_key(group_id: str, member_id: str) -> Key:
    return ("session", group_id, member_id)


def _rebalance_key(group_id: str, member_id: str) -> Key:
    return ("rebalance", group_id, member_id)


def _join_key(group_id: str, member_id: str) -> Key:
    return ("consumer join", group_id, member_id)


def _sync_key(group_id: str, member_id: str) -> Key:
    return ("consumer sync", group_id, member_id)


class Sessions:
    """Timeouts of members; each ends in fencing."""

    def __init__(self, registry: Registry, migration: Migration) -> None:
        self._registry = registry
        self._migration = migration

    # Clocks.

    def restart_session(self, group_id: str, member_id: str, now: Now, session_timeout_ms: int | None = None) -> None:
        """Restart the member's session timeout; a classic member has its own timeout."""
        if session_timeout_ms is None:
            session_timeout_ms = self._registry.configs.consumer_session_timeout_ms(group_id)
        self._schedule(_session_key(group_id, member_id), now.monotonic + session_timeout_ms, "session expired")

    def watch_revocation(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """Start or cancel the rebalance timeout: it applies to members that must revoke partitions."""
        key = _rebalance_key(group_id, member.member_id)
        if member.state != MemberState.UNREVOKED_PARTITIONS:
            self._registry.timers.cancel(key)
            return
        epoch = member.epoch

        def fence(now: Now) -> Result:
            return self._fence_later(key, "did not give partitions back in time", now, lambda each: each.epoch == epoch)

        self._registry.timers.schedule(key, now.monotonic + member.rebalance_timeout_ms, fence, TIMER_RETRY_MS)

    def expect_join(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        """Start the timeout for a classic member that must join again; an earlier one continues."""
        key = _join_key(group_id, member.member_id)
        if key not in self._registry.timers:
            self._schedule(key, now.monotonic + member.rebalance_timeout_ms, "did not join again in time")

    def joined(self, group_id: str, member_id: str, now: Now, rebalance_timeout_ms: int) -> None:
        """Start the timeout for a classic member that must send SyncGroup."""
        self._registry.timers.cancel(_join_key(group_id, member_id))
        self._schedule(_sync_key(group_id, member_id), now.monotonic + rebalance_timeout_ms, "did not sync in time")

    def synced(self, group_id: str, member_id: str) -> None:
        """Cancel it."""
        self._registry.timers.cancel(_sync_key(group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        """Cancel the timers of a removed member."""
        for make_key in (_session_key, _rebalance_key, _join_key, _sync_key):
            self._registry.timers.cancel(make_key(group_id, member_id))

    def _schedule(self, key: Key, due_ms: int, reason: str) -> None:
        self._registry.timers.schedule(
            key, due_ms, lambda now: self._fence_later(key, reason, now, lambda each: True), TIMER_RETRY_MS
        )

    def _fence_later(self, key: Key, reason: str, now: Now, still: Callable[[ConsumerMember], bool]) -> Result:
        _, group_id, member_id = key
        group = self._registry.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if not isinstance(group, ConsumerGroup) or not isinstance(member, ConsumerMember) or not still(member):
            return NOTHING
        self._registry.outbox.note("member fenced", group_id, f"{member_id} {reason}")
        return self.fence(group, (member,), None, now)

    # Fencing.

    def fence(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember], response: object | None, now: Now
    ) -> Result:
        """Remove members. Their partitions are free once their tombstones are appended."""
        leaving = sorted({member.member_id: member for member in members}.values(), key=lambda member: member.member_id)
        if not leaving:
            return Result(response=response)
        if self._migration.may_leave_classic(group, leaving):
            with suppress(UnknownGroup):  # a member's metadata is malformed: the group is unchanged
                return self._downgrade(group, leaving, response, now)
        records: list[Record] = []
        for member in leaving:
            records += tombstones(group.group_id, member.member_id)
            self.forget(group.group_id, member.member_id)
        self._drop(group, leaving, records)
        return Result(records=tuple(records), response=response)

    def _downgrade(
        self, group: ConsumerGroup, leaving: list[ConsumerMember], response: object | None, now: Now
    ) -> Result:
        reason = f"the last members of the consumer protocol left group {group.group_id}"
        downgrade = self._migration.downgrade(group, leaving, None, reason, now)

        def put_in_place() -> None:
            self.forget_all(group)
            self._migration.put_in_place(downgrade, now)

        return Result(records=downgrade.records, response=response, apply=put_in_place)

    def _drop(self, group: ConsumerGroup, leaving: list[ConsumerMember], records: list[Record]) -> None:
        """The group epoch for the remaining members, without expressions that have no subscribers any more."""
        subscriptions = group.subscriptions.copy()
        for member in leaving:
            subscriptions.replace_member(member, None)
        for regex in sorted(group.subscriptions.regexes.keys() - subscriptions.regexes.keys()):
            records.append(Record(ConsumerGroupRegularExpressionKey(group.group_id, regex)))
            if regex in group.resolved:
                subscriptions.replace_resolved(group.resolved[regex].topics, ())
        metadata_hash = self._registry.metadata_hash(subscriptions.topics())
        records.append(group.epoch_record(group.epoch + 1, metadata_hash))

    def forget_all(self, group: ConsumerGroup) -> None:
        """The group was removed or converted."""
        for member_id in group.members:
            self.forget(group.group_id, member_id)
