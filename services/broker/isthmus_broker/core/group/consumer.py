"""ConsumerGroupHeartbeat (KIP-848): members of the consumer protocol join, heartbeat, reconcile their assignment, and leave."""

from dataclasses import dataclass, replace
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_model.uuid_text import uuid_text
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, millis, to_millis
from kio.schema.consumer_group_heartbeat.v1 import response as wire
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kio.static.primitive import i32

from isthmus_broker.core.coordinator.result import Record, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.consumer_steps import ConsumerSteps, RegexChange
from isthmus_broker.core.group.errors import CoordinatorError, UnknownGroup
from isthmus_broker.core.group.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    OwnedPartitions,
    Partitions,
    current_record,
)
from isthmus_broker.core.group.migration import Migration
from isthmus_broker.core.group.registry import Group, Registry
from isthmus_broker.core.group.sessions import Sessions

MEMBER_ID_FROM_CLIENT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat with its fields in the coordinator's own types; None means unchanged."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int | None
    topics: frozenset[str] | None
    regex: str | None
    assignor: str | None
    owned: Partitions | None

    @classmethod
    def of(cls, request: ConsumerGroupHeartbeatRequest) -> "Beat":
        """Remove repeated topics and partitions."""
        rebalance_timeout_ms = to_millis(request.rebalance_timeout)
        names, owned = request.subscribed_topic_names, request.topic_partitions
        return cls(
            group_id=request.group_id,
            member_id=request.member_id,
            epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            rebalance_timeout_ms=None if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
            topics=None if names is None else frozenset(str(name) for name in names),
            regex=request.subscribed_topic_regex,
            assignor=request.server_assignor,
            owned=None if owned is None else _owned(owned),
        )

    @property
    def is_full(self) -> bool:
        """Whether it is complete, as the first one is and one after an error."""
        subscribes = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms is not None and subscribes and self.owned is not None


_NO_TOPIC = UUID(int=0)


def _owned(entries: tuple[TopicPartitions, ...]) -> Partitions:
    owned: dict[UUID, frozenset[int]] = {}
    for entry in entries:
        topic_id = entry.topic_id or _NO_TOPIC
        owned[topic_id] = owned.get(topic_id, frozenset()) | frozenset(entry.partitions)
    return owned


class Consumer:
    """The consumer protocol."""

    def __init__(self, registry: Registry, steps: ConsumerSteps, sessions: Sessions, migration: Migration) -> None:
        self._registry = registry
        self._steps = steps
        self._sessions = sessions
        self._migration = migration

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now: Now) -> Result:
        """Process any heartbeat."""
        self._validate(request, context.api_version)
        beat = Beat.of(request)
        if beat.epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(beat, now)
        return self._beat(beat, context, now)

    # Validation, in Kafka's order.

    def _validate(self, request: ConsumerGroupHeartbeatRequest, api_version: int) -> None:
        epoch = request.member_epoch
        if api_version >= MEMBER_ID_FROM_CLIENT_VERSION or epoch > 0 or epoch == LEAVE_EPOCH:
            _not_empty(request.member_id, "MemberId")
        _not_empty(request.group_id, "GroupId")
        _not_empty(request.instance_id, "InstanceId")
        _not_empty(request.rack_id, "RackId")
        if epoch == JOIN_EPOCH:
            _validate_join(request)
        elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid("MemberEpoch is invalid.")
        assignors = self._registry.config.group_consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
            raise CoordinatorError(ErrorCode.unsupported_assignor, message)

    # Joining and staying.

    def _beat(self, beat: Beat, context: RequestContext, now: Now) -> Result:
        records: list[Record] = []
        group = self._group(beat, records)
        upgraded = group if isinstance(self._registry.groups.get(beat.group_id), ClassicGroup) else None
        self._check_size(group, beat.member_id)
        if not beat.member_id:
            beat = replace(beat, member_id=new_member_id(self._registry))
        member = self._member(group, beat, records)
        updated = _updated(member, beat, context)
        names_changed = self._steps.describe(group, member, updated, records)
        regex_change = self._steps.subscribe_regex(group, member, updated, records, now)
        bump = names_changed or regex_change == RegexChange.RESOLVED
        epoch = self._steps.subscribe(group, member, updated, bump, records, now)
        target = self._steps.retarget(group, epoch, member, updated, records, now)
        changed = names_changed or regex_change != RegexChange.NONE
        advanced = self._steps.advance(group, updated, target, changed, beat.owned, records)
        if advanced != updated:
            self._sessions.watch_revocation(beat.group_id, advanced, now)
        for other in upgraded.members.values() if upgraded is not None else ():
            if other.classic is not None:
                self._sessions.restart_session(beat.group_id, other.member_id, now, other.classic.session_timeout_ms)
        self._sessions.restart_session(beat.group_id, beat.member_id, now)
        tell = beat.epoch == JOIN_EPOCH or beat.is_full or advanced.assigned != member.assigned
        return Result(records=tuple(records), response=self._response(beat.group_id, advanced, tell))

    def _group(self, beat: Beat, records: list[Record]) -> ConsumerGroup:
        """The group, created when a member joins. An empty classic group is replaced, another is converted if allowed."""
        group: Group | None = self._registry.groups.get(beat.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        joins = beat.epoch == JOIN_EPOCH
        if group is None:
            if not joins:
                raise UnknownGroup(f"Consumer group {beat.group_id} not found.")
            return ConsumerGroup(beat.group_id)
        if not joins or not isinstance(group, ClassicGroup):
            raise UnknownGroup(f"Group {beat.group_id} is not a consumer group.")
        if group.state == ClassicState.EMPTY:
            records.append(group.tombstone())
            return ConsumerGroup(beat.group_id)
        return self._migration.upgrade(group, records)

    def _check_size(self, group: ConsumerGroup, member_id: str) -> None:
        size_max = self._registry.config.group_consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            message = f"The consumer group has reached its maximum capacity of {size_max} members."
            raise CoordinatorError(ErrorCode.group_max_size_reached, message)

    def _member(self, group: ConsumerGroup, beat: Beat, records: list[Record]) -> ConsumerMember:
        if beat.instance_id is not None:
            return self._static_member(group, beat, beat.instance_id, records)
        if beat.epoch == JOIN_EPOCH and beat.member_id not in group.members:
            return ConsumerMember(member_id=beat.member_id)
        member = group.member(beat.member_id)
        check_epoch(member, beat)
        return member

    def _static_member(
        self, group: ConsumerGroup, beat: Beat, instance_id: str, records: list[Record]
    ) -> ConsumerMember:
        existing = group.static_member(instance_id)
        if beat.epoch != JOIN_EPOCH:
            member = static_member(existing, beat.member_id, instance_id)
            check_epoch(member, beat)
            return member
        if existing is None:
            return group.members.get(beat.member_id, ConsumerMember(member_id=beat.member_id))
        if existing.classic is None and existing.epoch != STATIC_LEAVE_EPOCH:
            message = (
                f"Static member {beat.member_id} with instance id {instance_id} cannot join the group because the instance id"
                f" is owned by {existing.member_id} member."
            )
            raise CoordinatorError(ErrorCode.unreleased_instance_id, message)
        return self._steps.take_over(group, existing, beat.member_id, records)

    def _response(self, group_id: str, member: ConsumerMember, tell_assignment: bool) -> object:
        return wire.ConsumerGroupHeartbeatResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            member_id=member.member_id,
            member_epoch=i32(member.epoch),
            heartbeat_interval=millis(self._registry.configs.consumer_heartbeat_interval_ms(group_id)),
            assignment=_assignment(member.assigned) if tell_assignment else None,
        )

    # Leaving.

    def _leave(self, beat: Beat, now: Now) -> Result:
        group = self._registry.consumer_group(beat.group_id)
        if beat.instance_id is None:
            return self._sessions.fence(group, (group.member(beat.member_id),), _left(beat), now)
        member = static_member(group.static_member(beat.instance_id), beat.member_id, beat.instance_id)
        if beat.epoch == LEAVE_EPOCH:
            return self._sessions.fence(group, (member,), _left(beat), now)
        # It will return: it keeps its partitions, without the epochs of its current instance.
        kept = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        away = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking={})
        return Result(records=(current_record(group.group_id, away),), response=_left(beat))


def new_member_id(registry: Registry) -> str:
    """A member id in the text form of Kafka's Uuid."""
    return uuid_text(registry.new_id())


def static_member(existing: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """The member with the instance id, if its member id matches."""
    if existing is None:
        raise CoordinatorError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}."
        raise CoordinatorError(ErrorCode.fenced_instance_id, message)
    return existing


def check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """Check a member's epoch: its current one, or the previous one if the response with the new one was lost; joining is always
    possible."""
    if beat.epoch == JOIN_EPOCH or beat.epoch == member.epoch:
        return
    lost_answer = (
        beat.epoch == member.previous_epoch and beat.owned is not None and _within(beat.owned, member.assigned)
    )
    if beat.epoch < member.epoch and lost_answer:
        return
    size = "greater" if beat.epoch > member.epoch else "smaller"
    message = (
        f"The consumer group member has a {size} member epoch ({beat.epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    raise CoordinatorError(ErrorCode.fenced_member_epoch, message)


def _within(owned: Partitions, assigned: OwnedPartitions) -> bool:
    return all(
        topic_id in assigned and partitions <= assigned[topic_id].keys() for topic_id, partitions in owned.items()
    )


def _updated(member: ConsumerMember, beat: Beat, context: RequestContext) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if beat.rebalance_timeout_ms is None else beat.rebalance_timeout_ms
        ),
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        topics=member.topics if beat.topics is None else beat.topics,
        regex=member.regex if beat.regex is None else beat.regex,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def _assignment(assigned: OwnedPartitions) -> wire.Assignment:
    return wire.Assignment(
        topic_partitions=tuple(
            wire.TopicPartitions(
                topic_id=topic_id, partitions=tuple(i32(index) for index in sorted(assigned[topic_id]))
            )
            for topic_id in sorted(assigned)
        )
    )


def _left(beat: Beat) -> object:
    return wire.ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=beat.member_id,
        member_epoch=i32(beat.epoch),
        heartbeat_interval=millis(0),
    )


def _invalid(message: str) -> CoordinatorError:
    return CoordinatorError(ErrorCode.invalid_request, message)


def _not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _validate_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if to_millis(request.rebalance_timeout) == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
