"""The target assignment of a streams group: when it is computed, and by what."""

from collections.abc import Mapping

from isthmus_model.clocks import Now

from isthmus_broker.core.coordinator.result import NOTHING, Record, Result
from isthmus_broker.core.coordinator.timers import Key
from isthmus_broker.core.group.config import TIMER_RETRY_MS
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.streams.assign_sticky import MemberSpec, SubtopologySpec, assign
from isthmus_broker.core.group.streams.configured import ConfiguredTopology, Status
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.member import StreamsMember, target_record
from isthmus_broker.core.group.streams.responses import Statuses
from isthmus_broker.core.group.streams.tasks import NO_TASKS, Assignment

STANDBY_REPLICAS = "num.standby.replicas"
"""The setting that the group's metadata record keeps: another value means another assignment."""


def delay_key(group_id: str) -> Key:
    """The timer of a group's first assignment."""
    return ("streams delay", group_id)


def forget(registry: Registry, group: StreamsGroup) -> None:
    """A group was removed or converted: changes of its topics do not concern it any more, and no assignment is due."""
    registry.resubscribe(group.group_id, group.required_topics, set())
    registry.timers.cancel(delay_key(group.group_id))


class Targets:
    """Target assignments."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def configs(self, group_id: str) -> dict[str, str]:
        """The settings of the assignment."""
        return {STANDBY_REPLICAS: str(self._registry.configs.streams_num_standby_replicas(group_id))}

    # The initial delay.

    def delay_first(self, group: StreamsGroup, now: Now) -> None:
        """The first member of a group waits, so that others that start at the same time take part in the first assignment."""
        delay_ms = self._registry.configs.streams_initial_rebalance_delay_ms(group.group_id)
        if group.members or delay_ms == 0:
            return
        self._registry.timers.schedule_if_absent(
            delay_key(group.group_id),
            now.monotonic + delay_ms,
            lambda at: self._end_delay(group.group_id, at),
            TIMER_RETRY_MS,
        )

    def _end_delay(self, group_id: str, now: Now) -> Result:
        """Assign the tasks to all members that have joined. Without a check of the topics since, the next heartbeat does it."""
        group = self._registry.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or not group.members or group.configured is None:
            return NOTHING
        if group.assignment_epoch >= group.epoch or self._must_wait(group, now):
            return NOTHING
        records: list[Record] = []
        self._assign(group, group.epoch, dict(group.members), group.configured, group.assignment_configs, records, now)
        return Result(records=tuple(records))

    # The assignment.

    def retarget(
        self,
        group: StreamsGroup,
        epoch: int,
        updated: StreamsMember,
        configured: ConfiguredTopology,
        records: list[Record],
        statuses: Statuses,
        now: Now,
    ) -> tuple[int, Assignment]:
        """Compute the target assignment for a new group epoch, not more often than configured. Returns the epoch of the target, and the
        member's target."""
        if delay_key(group.group_id) in self._registry.timers:
            statuses.append((Status.ASSIGNMENT_DELAYED, _delayed("initial rebalance delay")))
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= epoch:
            return group.assignment_epoch, group.target_of(updated.member_id)
        if self._must_wait(group, now):
            statuses.append((Status.ASSIGNMENT_DELAYED, _delayed("assignment interval")))
            return group.assignment_epoch, group.target_of(updated.member_id)
        members = {**group.members, updated.member_id: updated}
        targets = self._assign(group, epoch, members, configured, self.configs(group.group_id), records, now)
        return epoch, targets[updated.member_id]

    def _must_wait(self, group: StreamsGroup, now: Now) -> bool:
        interval_ms = self._registry.configs.streams_assignment_interval_ms(group.group_id)
        return interval_ms > 0 and group.assigned_ms is not None and now.monotonic < group.assigned_ms + interval_ms

    def _assign(
        self,
        group: StreamsGroup,
        epoch: int,
        members: Mapping[str, StreamsMember],
        configured: ConfiguredTopology,
        configs: Mapping[str, str],
        records: list[Record],
        now: Now,
    ) -> Mapping[str, Assignment]:
        """Without a valid topology no member gets tasks."""
        targets: Mapping[str, Assignment] = dict.fromkeys(members, NO_TASKS)
        if configured.is_ready:
            assert configured.subtopologies is not None
            specs = [
                MemberSpec(each.member_id, each.process_id, group.target_of(each.member_id))
                for each in members.values()
            ]
            parts = [
                SubtopologySpec(name, each.tasks, each.is_stateful) for name, each in configured.subtopologies.items()
            ]
            targets = assign(specs, parts, int(configs.get(STANDBY_REPLICAS, "0")))
        records += [
            target_record(group.group_id, member_id, targets[member_id])
            for member_id in sorted(targets)
            if targets[member_id] != group.target.get(member_id)
        ]
        records.append(group.assignment_record(epoch, now.wall))
        return targets


def _delayed(reason: str) -> str:
    return f"Assignment delayed due to the configured {reason}."
