"""Members that use the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Such a member's generation is its member epoch. JoinGroup is its heartbeat with a change, SyncGroup fetches the assignment, and
REBALANCE_IN_PROGRESS makes it join again whenever its next step is due.
"""

from dataclasses import replace
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import DecodeError, ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.leave_group.v5.response import MemberResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest

from isthmus_broker.core.coordinator.result import NOTHING, Record, RequestContext, Result
from isthmus_broker.core.group.classic import left
from isthmus_broker.core.group.classic_join import MEMBER_ID_REQUIRED_VERSION, Join
from isthmus_broker.core.group.consumer import new_member_id, static_member
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.consumer_protocol import (
    CONSUMER_PROTOCOL,
    Subscription,
    read_subscription,
    write_assignment,
)
from isthmus_broker.core.group.consumer_steps import ConsumerSteps, RegexChange
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.member import ConsumerMember, MemberState, Partitions, without_epochs
from isthmus_broker.core.group.migration import Migration
from isthmus_broker.core.group.records import ClassicMemberMetadata, ClassicProtocol
from isthmus_broker.core.group.registry import UNKNOWN_MEMBER_ID, Registry
from isthmus_broker.core.group.responses import heartbeat_response, join_response, leave_response, sync_response
from isthmus_broker.core.group.sessions import Sessions


class ClassicInConsumer:
    """Classic members of consumer groups."""

    def __init__(self, registry: Registry, steps: ConsumerSteps, sessions: Sessions, migration: Migration) -> None:
        self._registry = registry
        self._steps = steps
        self._sessions = sessions
        self._migration = migration

    # JoinGroup.

    def join(self, join: Join, group: ConsumerGroup, now: Now) -> Result:
        """Join, or join again for the next step towards the target."""
        self._migration.check_classic_may_join(group)
        is_unknown = join.member_id == UNKNOWN_MEMBER_ID
        member_id = new_member_id(self._registry) if is_unknown else join.member_id
        size_max = self._registry.config.group_consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise CoordinatorError(ErrorCode.group_max_size_reached)
        if not group.supports_classic_protocols(join.protocol_type, [name for name, _ in join.protocols]):
            raise CoordinatorError(ErrorCode.inconsistent_group_protocol)
        if is_unknown and join.instance_id is None and join.parked.api_version >= MEMBER_ID_REQUIRED_VERSION:
            response = join_response(join.parked.api_version, error=ErrorCode.member_id_required, member_id=member_id)
            self._registry.outbox.reply(join.parked.token, response)
            return NOTHING
        return self._join(replace(join, member_id=member_id), group, is_unknown, now)

    def _join(self, join: Join, group: ConsumerGroup, is_unknown: bool, now: Now) -> Result:
        records: list[Record] = []
        member = self._member(join, group, is_unknown, records)
        subscription = _subscription(join)
        updated = _updated(member, join, subscription)
        names_changed = self._steps.describe(group, member, updated, records)
        regex_change = self._steps.subscribe_regex(group, member, updated, records, now)
        changed = names_changed or regex_change != RegexChange.NONE
        epoch = self._steps.subscribe(group, member, updated, changed, records, now)
        owned = self._owned(subscription)
        replaced = group.static_member(join.instance_id)
        if replaced is not None and self._migration.may_replace_by_classic(group, replaced):
            return self._downgrade(join, group, updated, epoch, changed, owned, records, now)
        target = self._steps.retarget(group, epoch, member, updated, records, now)
        advanced = self._steps.advance(group, updated, target, changed, owned, records)

        def start_clocks(error: ErrorCode, now: Now) -> None:
            if error == ErrorCode.none:
                self._sessions.joined(group.group_id, advanced.member_id, now, join.rebalance_timeout_ms)
                self._sessions.restart_session(group.group_id, advanced.member_id, now, join.session_timeout_ms)

        return Result(records=tuple(records), response=_joined(join, advanced), then=start_clocks)

    def _downgrade(
        self,
        join: Join,
        group: ConsumerGroup,
        member: ConsumerMember,
        epoch: int,
        changed: bool,
        owned: Partitions,
        records: list[Record],
        now: Now,
    ) -> Result:
        """The last member of the consumer protocol was replaced by a classic one: convert the group to a classic one."""
        reason = None
        if group.assignment_epoch < epoch:
            reason = f"group {group.group_id} became classic with a stale assignment"
        else:
            target = (group.assignment_epoch, group.target_of(member))
            member = self._steps.advance(group, member, target, changed, owned, records)
        downgrade = self._migration.downgrade(group, (), member, reason, now)

        def put_in_place() -> None:
            self._sessions.forget_all(group)
            self._migration.put_in_place(downgrade, now)

        return Result(records=(*records, *downgrade.records), response=_joined(join, member), apply=put_in_place)

    def _member(self, join: Join, group: ConsumerGroup, is_unknown: bool, records: list[Record]) -> ConsumerMember:
        if join.instance_id is None:
            return group.members.get(join.member_id, ConsumerMember(member_id=join.member_id))
        existing = group.static_member(join.instance_id)
        if not is_unknown:
            return static_member(existing, join.member_id, join.instance_id)
        if existing is None:
            return ConsumerMember(member_id=join.member_id)
        return self._steps.take_over(group, existing, join.member_id, records)

    def _owned(self, subscription: Subscription) -> Partitions:
        owned: dict[UUID, frozenset[int]] = {}
        for name, partitions in subscription.owned:
            topic = self._registry.view.topic(name)
            if topic is not None:
                owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(partitions)
        return owned

    # SyncGroup.

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now: Now) -> Result:
        """The assignment of the member's epoch, unless it has to join again first."""
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        classic = _classic(member)
        _check_generation(member, request.generation_id)
        first = classic.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (None, first.name):
            raise CoordinatorError(ErrorCode.inconsistent_group_protocol)
        if group.assignment_epoch > member.epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
            self._sessions.expect_join(group.group_id, member, now)
            raise CoordinatorError(ErrorCode.rebalance_in_progress)
        try:
            assignment = write_assignment(first.metadata, without_epochs(member.assigned), self._registry.view)
        except DecodeError:  # the member of an upgraded group, whose preferred protocol was another
            raise CoordinatorError(ErrorCode.unknown_server_error) from None

        def start_clocks(error: ErrorCode, now: Now) -> None:
            if error == ErrorCode.none:
                self._sessions.synced(group.group_id, member.member_id)
                self._sessions.restart_session(group.group_id, member.member_id, now, classic.session_timeout_ms)

        response = sync_response(ErrorCode.none, assignment, request.protocol_type, request.protocol_name)
        return Result(response=response, then=start_clocks)

    # Heartbeat.

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, now: Now) -> Result:
        """Heartbeat: keep a member alive, and report whether its next step is due."""
        member = self._classic_member(group, request.member_id, request.group_instance_id)
        classic = _classic(member)
        _check_generation(member, request.generation_id)
        self._sessions.restart_session(group.group_id, member.member_id, now, classic.session_timeout_ms)
        next_step_due = (
            member.epoch < group.assignment_epoch
            or member.state == MemberState.UNREVOKED_PARTITIONS
            or (member.state == MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member))
        )
        if not next_step_due:
            return Result(response=heartbeat_response())
        self._sessions.expect_join(group.group_id, member, now)
        return Result(response=heartbeat_response(ErrorCode.rebalance_in_progress))

    def _classic_member(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
        if instance_id is None:
            return group.member(member_id)
        return static_member(group.static_member(instance_id), member_id, instance_id)

    # LeaveGroup.

    def leave(
        self, group: ConsumerGroup, identities: tuple[MemberIdentity, ...], context: RequestContext, now: Now
    ) -> Result:
        """LeaveGroup: remove members of either protocol; an administrator may remove any."""
        responses: list[MemberResponse] = []
        leaving: list[ConsumerMember] = []
        for identity in identities:
            try:
                leaving.append(self._leaving(group, identity))
                responses.append(left(identity))
            except CoordinatorError as refused:
                responses.append(left(identity, refused.error))
        return self._sessions.fence(group, leaving, leave_response(context.api_version, responses), now)

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        instance_id = identity.group_instance_id
        if instance_id is None:
            return group.member(identity.member_id)
        existing = group.static_member(instance_id)
        if existing is not None and identity.member_id == UNKNOWN_MEMBER_ID:
            return existing
        return static_member(existing, identity.member_id, instance_id)


def _subscription(join: Join) -> Subscription:
    try:
        return read_subscription(join.protocols[0][1])
    except DecodeError:
        raise CoordinatorError(ErrorCode.unknown_server_error) from None


def _updated(member: ConsumerMember, join: Join, subscription: Subscription) -> ConsumerMember:
    protocols = tuple(ClassicProtocol(name, metadata) for name, metadata in join.protocols)
    return replace(
        member,
        instance_id=member.instance_id if join.instance_id is None else join.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if join.rebalance_timeout_ms == -1 else join.rebalance_timeout_ms
        ),
        topics=frozenset(subscription.topics),
        regex="",
        client_id=join.client_id,
        client_host=join.client_host,
        classic=ClassicMemberMetadata(join.session_timeout_ms, protocols),
    )


def _joined(join: Join, member: ConsumerMember) -> object:
    return join_response(
        join.parked.api_version,
        member_id=member.member_id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol=_classic(member).supported_protocols[0].name,
    )


def _classic(member: ConsumerMember) -> ClassicMemberMetadata:
    if member.classic is None or not member.classic.supported_protocols:
        raise CoordinatorError(ErrorCode.unknown_member_id)
    return member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise CoordinatorError(ErrorCode.illegal_generation)
