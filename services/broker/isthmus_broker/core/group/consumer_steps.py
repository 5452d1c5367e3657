"""The steps of every joining or heartbeating member of a consumer group, with either protocol.

    member's own metadata → subscribed topics → group epoch → target assignment → the member's next assignment

Each step returns the records it needs. The group itself changes only when they are replayed.
"""

from dataclasses import replace
from enum import Enum, auto
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.regex import InvalidRegex, NamePattern, TooMuchWork
from isthmus_broker.core.coordinator.result import NOTHING, Record, Result
from isthmus_broker.core.coordinator.timers import Key
from isthmus_broker.core.group.assign import ASSIGNORS, GroupSpec, MemberSpec
from isthmus_broker.core.group.config import REGEX_REFRESH_MIN_INTERVAL_MS, TIMER_RETRY_MS
from isthmus_broker.core.group.consumer_group import NO_PARTITIONS, ConsumerGroup
from isthmus_broker.core.group.errors import CoordinatorError, UnknownGroup
from isthmus_broker.core.group.member import (
    ConsumerMember,
    Partitions,
    current_record,
    metadata_record,
    target_record,
    tombstones,
)
from isthmus_broker.core.group.reconcile import Target, reconcile
from isthmus_broker.core.group.records import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.subscriptions import ResolvedRegex, Subscriptions


class RegexChange(Enum):
    """The effect of a member's regular expression: a new one is resolved later, and the group epoch waits for that."""

    NONE = auto()
    UNRESOLVED = auto()
    RESOLVED = auto()


def _regex_key(group_id: str) -> Key:
    return ("regex", group_id)


class ConsumerSteps:
    """The steps for a member of a consumer group."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    # The member itself.

    def take_over(
        self, group: ConsumerGroup, old: ConsumerMember, new_id: str, records: list[Record]
    ) -> ConsumerMember:
        """A static member returns under another id: it takes its predecessor's partitions, at epoch 0."""
        new = replace(old, member_id=new_id, epoch=0, previous_epoch=0)
        records += tombstones(group.group_id, old.member_id)
        records.append(metadata_record(group.group_id, new))
        records.append(target_record(group.group_id, new_id, group.target.get(old.member_id, NO_PARTITIONS)))
        records.append(current_record(group.group_id, new))
        return new

    def describe(
        self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, records: list[Record]
    ) -> bool:
        """Record the member's own metadata; returns whether it subscribes to other names than before."""
        if updated == member:
            return False
        records.append(metadata_record(group.group_id, updated))
        return updated.topics != member.topics

    # Regular expressions.

    def subscribe_regex(
        self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, records: list[Record], now: Now
    ) -> RegexChange:
        """Apply a change of the member's expression, and have the group's expressions resolved when that is due."""
        old, new = member.regex or "", updated.regex or ""
        counts = group.subscriptions.regexes
        change = RegexChange.NONE
        is_first = False
        if (member.regex, old) != (updated.regex, new):
            change = RegexChange.UNRESOLVED
            if old and counts.get(old, 0) == 1:
                records.append(Record(ConsumerGroupRegularExpressionKey(group.group_id, old)))
            if new and counts.get(new, 0) == 0:
                _check(new)
                is_first = True
            elif new in group.resolved or (old and not new):
                change = RegexChange.RESOLVED
        if is_first or counts:
            self._resolve_if_due(group, old, new, is_first, now)
        return change

    def _resolve_if_due(self, group: ConsumerGroup, old: str, new: str, is_first: bool, now: Now) -> None:
        key = _regex_key(group.group_id)
        resolved = group.resolved.values()
        if key in self._registry.timers:
            return
        if resolved and now.monotonic <= max(each.resolved_ms for each in resolved) + REGEX_REFRESH_MIN_INTERVAL_MS:
            return
        counts = group.subscriptions.copy()
        counts.replace_member(ConsumerMember(member_id="", regex=old), ConsumerMember(member_id="", regex=new))
        if not counts.regexes:
            return
        refresh_ms = self._registry.config.group_consumer_regex_refresh_interval_ms
        due = (
            is_first
            or len(counts.regexes) != len(resolved)
            or min((each.version for each in resolved), default=0) < self._registry.topics_created_version
            or now.monotonic > min(each.resolved_ms for each in resolved) + refresh_ms
        )
        if due:
            self._registry.timers.schedule(
                key, now.monotonic, lambda at: self._resolve(group.group_id, at), TIMER_RETRY_MS
            )

    def _resolve(self, group_id: str, now: Now) -> Result:
        """Match all of the group's expressions against all topics; members learn of it in their next heartbeats, as in Kafka."""
        try:
            group = self._registry.consumer_group(group_id)
            resolved = {regex: self._topics_of(regex) for regex in sorted(group.subscriptions.regexes)}
        except (UnknownGroup, TooMuchWork) as error:
            self._registry.outbox.note("regex not resolved", group_id, str(error))
            return NOTHING
        records: list[Record] = []
        subscriptions = group.subscriptions.copy()
        changed = False
        for regex, topics in resolved.items():
            former = group.resolved[regex].topics if regex in group.resolved else frozenset[str]()
            changed = changed or former != topics
            subscriptions.replace_resolved(former, topics)
            value = ConsumerGroupRegularExpressionValue(
                topics=tuple(sorted(topics)), version=self._registry.view.version, timestamp=now.wall
            )
            records.append(Record(ConsumerGroupRegularExpressionKey(group_id, regex), value))
        metadata_hash = self._registry.metadata_hash(subscriptions.topics())
        if changed or metadata_hash != group.metadata_hash:
            records.append(group.epoch_record(group.epoch + 1, metadata_hash))
            group.refreshed(now, group.epoch + 1)
        return Result(records=tuple(records))

    def _topics_of(self, regex: str) -> frozenset[str]:
        try:
            pattern = NamePattern(regex)
        except (
            InvalidRegex
        ):  # accepted by Kafka, which may have written this log, or by an older version of this software
            return frozenset()
        return frozenset(name for name in self._registry.view.names if pattern.matches(name))

    # The group.

    def subscribe(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        bump: bool,
        records: list[Record],
        now: Now,
    ) -> int:
        """Bump the group epoch if the subscribed topics or their metadata changed; returns the group epoch."""
        if not bump and not group.metadata_expired(now):
            return group.epoch
        subscriptions = _subscriptions_with(group, member, updated)
        metadata_hash = self._registry.metadata_hash(subscriptions.topics())
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            records.append(group.epoch_record(epoch, metadata_hash))
            self._registry.outbox.note("group epoch", group.group_id, str(epoch))
        group.refreshed(now, epoch)
        if group.has_partition_metadata:
            records.append(Record(ConsumerGroupPartitionMetadataKey(group.group_id)))
        return epoch

    def retarget(
        self,
        group: ConsumerGroup,
        epoch: int,
        member: ConsumerMember,
        updated: ConsumerMember,
        records: list[Record],
        now: Now,
    ) -> tuple[int, Partitions]:
        """Compute the target assignment for a new group epoch, not more often than configured (KIP-1263). Returns the epoch of the target,
        and the member's target."""
        interval_ms = self._registry.configs.consumer_assignment_interval_ms(group.group_id)
        waits = group.assigned_ms is not None and now.monotonic < group.assigned_ms + interval_ms
        if group.assignment_epoch >= epoch or waits:
            return group.assignment_epoch, group.target_of(updated)
        name = group.preferred_assignor(member, updated)
        if name not in ASSIGNORS:  # no member prefers an assignor, or an earlier owner of the log supported more
            name = self._registry.config.group_consumer_assignors[0]
        targets = ASSIGNORS[name](self._spec(group, member, updated))
        records += [
            target_record(group.group_id, member_id, targets[member_id])
            for member_id in sorted(targets)
            if targets[member_id] != group.target.get(member_id)
        ]
        records.append(group.assignment_record(epoch, now.wall))
        return epoch, targets[updated.member_id]

    def _spec(self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> GroupSpec:
        """The members after the change; a static member that was replaced counts once."""
        members = dict(group.members)
        replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
        if replaced is not None:
            members.pop(replaced, None)
        members[updated.member_id] = updated
        specs = tuple(
            MemberSpec(each.member_id, each.instance_id, self.topic_ids(group, each), group.target_of(each))
            for each in members.values()
        )
        topic_ids = set().union(*(spec.topic_ids for spec in specs))
        counts = {
            topic_id: topic.partitions
            for topic_id in topic_ids
            if (topic := self._registry.view.topic_by_id(topic_id)) is not None
        }
        return GroupSpec(specs, counts, _subscriptions_with(group, member, updated).homogeneous(len(specs)))

    def topic_ids(self, group: ConsumerGroup, member: ConsumerMember) -> set[UUID]:
        """The existing topics that a member subscribes to, by name or by a resolved expression."""
        resolved = group.resolved.get(member.regex) if member.regex else None
        return self._registry.topic_ids(member.topics | (resolved.topics if resolved else frozenset()))

    # Reconciliation.

    def advance(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target: tuple[int, Partitions],
        subscription_changed: bool,
        owned: Partitions | None,
        records: list[Record],
    ) -> ConsumerMember:
        """The member's next step towards its target."""
        epoch, partitions = target
        if not subscription_changed and member.reconciled_to(epoch):
            return member
        where = Target(
            epoch=epoch,
            partitions=partitions,
            topic_ids=self.topic_ids(group, member),
            partition_epoch=group.partition_epoch,
            subscription_changed=subscription_changed,
        )
        advanced = reconcile(member, where, owned)
        if advanced != member:
            records.append(current_record(group.group_id, advanced))
        return advanced


def _subscriptions_with(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> Subscriptions:
    """The group's subscriptions once `member`, new or replacing its predecessor, is `updated`."""
    subscriptions = group.subscriptions.copy()
    subscriptions.replace_member(member, updated)
    old_regex = member.regex or ""
    if old_regex and old_regex not in subscriptions.regexes and old_regex in group.resolved:
        subscriptions.replace_resolved(group.resolved[old_regex].topics, ())
    return subscriptions


def _check(regex: str) -> None:
    try:
        NamePattern(regex)
    except InvalidRegex as invalid:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {invalid.description}."
        raise CoordinatorError(ErrorCode.invalid_regular_expression, message) from None


def resolved_regex(value: ConsumerGroupRegularExpressionValue, now: Now) -> ResolvedRegex:
    """The resolution that a record describes."""
    return ResolvedRegex(frozenset(value.topics), value.version, now.monotonic_of(value.timestamp))
