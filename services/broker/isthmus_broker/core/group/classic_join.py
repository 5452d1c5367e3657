"""JoinGroup of the classic protocol: new and existing, dynamic and static members, and when joining starts a rebalance.

KIP-394 gives a new dynamic member its id first; KIP-345 lets a static member replace its predecessor without a rebalance.
"""

from dataclasses import dataclass

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import to_millis
from kio.schema.join_group.v9.request import JoinGroupRequest

from isthmus_broker.core.coordinator.result import NOTHING, Record, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicMember, ClassicState, Parked, Protocols
from isthmus_broker.core.group.config import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBERS_MAX
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.rebalance import Rebalance, heartbeat_key, joined_members, keep_memory
from isthmus_broker.core.group.registry import UNKNOWN_MEMBER_ID, Registry
from isthmus_broker.core.group.responses import join_response
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams_targets import forget

MEMBER_ID_REQUIRED_VERSION = 4
SKIP_ASSIGNMENT_VERSION = 9


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup with its fields in the coordinator's own types."""

    parked: Parked
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str

    @classmethod
    def of(cls, token: int, request: JoinGroupRequest, context: RequestContext) -> "Join":
        """Version 0 has no rebalance timeout: the session timeout replaces it."""
        session_timeout_ms = to_millis(request.session_timeout)
        return cls(
            parked=Parked(token, context.api_version),
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            client_id=context.client_id,
            client_host=context.client_host,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=to_millis(request.rebalance_timeout) if context.api_version else session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            reason=request.reason or "not provided",
        )


class ClassicJoin:
    """Joining a classic group."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance

    def join(self, join: Join, now: Now) -> Result:
        """Join the group. A missing one is created, an empty consumer or streams group is converted."""
        former = self._registry.groups.get(join.group_id)
        if isinstance(former, ClassicGroup):
            return self._join_group(join, former, now)
        assert former is None or not former.members
        if join.member_id != UNKNOWN_MEMBER_ID:
            self._refuse(join, ErrorCode.unknown_member_id, join.member_id)
            return NOTHING
        group = ClassicGroup(join.group_id, state_timestamp_ms=now.wall)
        self._registry.groups[join.group_id] = group
        result = self._join_group(join, group, now)
        assert result is NOTHING, "a group's first rebalance waits"
        return self._new_group(group, former, join)

    def _new_group(self, group: ClassicGroup, former: ConsumerGroup | StreamsGroup | None, join: Join) -> Result:
        """The group must be in the log before offsets are committed; if the append fails, the group is removed."""
        records: list[Record] = [] if former is None else former.tombstones()
        if isinstance(former, StreamsGroup):
            forget(self._registry, former)

        def undo(error: ErrorCode, now: Now) -> None:
            if error == ErrorCode.none or self._registry.groups.get(group.group_id) is not group:
                return
            for member in list(group.members.values()):
                self._rebalance.refuse_join(group, member, error, "")
            if former is None:
                del self._registry.groups[group.group_id]
            else:
                self._registry.groups[group.group_id] = former
            if isinstance(former, StreamsGroup):
                self._registry.resubscribe(group.group_id, set(), former.required_topics)

        return Result(records=(*records, group.empty_record()), apply=keep_memory, then=undo)

    def _join_group(self, join: Join, group: ClassicGroup, now: Now) -> Result:
        if not self._has_room(group, join.member_id):
            if join.member_id in group.members:
                self._rebalance.remove(group, group.members[join.member_id])
            group.remove(join.member_id)
            self._refuse(join, ErrorCode.group_max_size_reached, UNKNOWN_MEMBER_ID)
            return NOTHING
        if not group.supports(join.protocol_type, join.protocols):
            self._refuse(join, ErrorCode.inconsistent_group_protocol, join.member_id)
            return NOTHING
        if join.member_id == UNKNOWN_MEMBER_ID:
            return self._join_new(join, group, now)
        return self._join_known(join, group, now)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """group.max.size; while a rebalance prepares, the first members to join are accepted."""
        size_max = self._registry.config.group_max_size
        member = group.members.get(member_id)
        if group.state == ClassicState.EMPTY:
            return len(group.pending_joins) < PENDING_MEMBERS_MAX
        if group.state == ClassicState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.joined < size_max
        return member is not None or len(group.members) < size_max

    # New members.

    def _join_new(self, join: Join, group: ClassicGroup, now: Now) -> Result:
        if join.instance_id is not None:
            new_id = f"{join.instance_id}-{self._registry.new_id()}"
            if join.instance_id in group.static_members:
                return self._replace_static(join, group, new_id, now)
            return self._add(join, group, new_id, now)
        new_id = f"{join.client_id}-{self._registry.new_id()}"
        if join.parked.api_version < MEMBER_ID_REQUIRED_VERSION:
            return self._add(join, group, new_id, now)
        if len(group.pending_joins) >= PENDING_MEMBERS_MAX:
            self._refuse(join, ErrorCode.group_max_size_reached, UNKNOWN_MEMBER_ID)
            return NOTHING
        group.pending_joins.add(new_id)
        self._rebalance.expect(group.group_id, new_id, now.monotonic + join.session_timeout_ms)
        self._refuse(join, ErrorCode.member_id_required, new_id)
        return NOTHING

    def _add(self, join: Join, group: ClassicGroup, member_id: str, now: Now) -> Result:
        member = ClassicMember(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocol_type=join.protocol_type,
            protocols=join.protocols,
            is_new=True,
        )
        if group.state == ClassicState.PREPARING_REBALANCE and group.previous_state == ClassicState.EMPTY:
            group.new_member_added = True
        group.add(member)
        group.park_join(member, join.parked)
        self._rebalance.restart_session(group, member, now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        instance = "" if join.instance_id is None else f" with instance id {join.instance_id}"
        reason = f"member {member_id}{instance} joins; client reason: {join.reason}"
        return self._rebalance.prepare_or_complete(group, reason, now)

    # Existing members.

    def _join_known(self, join: Join, group: ClassicGroup, now: Now) -> Result:
        if join.member_id in group.pending_joins:
            if join.instance_id is not None:
                raise CoordinatorError(ErrorCode.unknown_server_error)  # only dynamic members are given an id first
            return self._add(join, group, join.member_id, now)
        try:
            member = group.validate_member(join.member_id, join.instance_id)
        except CoordinatorError as refused:
            self._refuse(join, refused.error, join.member_id)
            return NOTHING
        changed = member.protocols != join.protocols
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                return self._rejoin(join, group, member, now)
            case ClassicState.COMPLETING_REBALANCE if changed:
                return self._rejoin(join, group, member, now)
            case ClassicState.STABLE if changed or group.leader == member.member_id:
                return self._rejoin(join, group, member, now)
            case ClassicState.COMPLETING_REBALANCE | ClassicState.STABLE:
                self._repeat_response(join, group, member)
            case _:
                self._refuse(join, ErrorCode.unknown_member_id, join.member_id)
        return NOTHING

    def _rejoin(self, join: Join, group: ClassicGroup, member: ClassicMember, now: Now) -> Result:
        self._park_again(join, group, member)
        reason = f"member {member.member_id} joins again; client reason: {join.reason}"
        return self._rebalance.prepare_or_complete(group, reason, now)

    def _park_again(self, join: Join, group: ClassicGroup, member: ClassicMember) -> None:
        """Replace a parked JoinGroup: its connection was closed, since the client would not have sent another otherwise."""
        self._rebalance.refuse_join(group, member, ErrorCode.rebalance_in_progress, member.member_id)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        group.park_join(member, join.parked)

    def _repeat_response(self, join: Join, group: ClassicGroup, member: ClassicMember) -> None:
        """Repeat the response to an earlier JoinGroup, which was lost or need not have been sent: the generation stays."""
        leads_unfinished = group.state == ClassicState.COMPLETING_REBALANCE and group.leader == member.member_id
        self._registry.outbox.reply(
            join.parked.token,
            join_response(
                join.parked.api_version,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol=group.protocol,
                leader=group.leader,
                members=joined_members(group) if leads_unfinished else (),
            ),
        )

    # Static members (KIP-345).

    def _replace_static(self, join: Join, group: ClassicGroup, new_id: str, now: Now) -> Result:
        """A static member rejoins without its id: it gets a new one, and its predecessor is fenced."""
        assert join.instance_id is not None
        old_leader, old_id = group.leader, group.static_members[join.instance_id]
        member = group.members[old_id]
        former = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._rebalance.refuse_join(group, member, ErrorCode.fenced_instance_id, old_id)
        self._rebalance.refuse_sync(member, ErrorCode.fenced_instance_id)
        self._registry.timers.cancel(heartbeat_key(group.group_id, old_id))
        group.rename(join.instance_id, new_id)
        member.is_new = False
        self._rebalance.restart_session(group, member, now)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        group.park_join(member, join.parked)
        reason = f"static member {join.instance_id} came back; client reason: {join.reason}"
        match group.state:
            case ClassicState.STABLE if group.select_protocol() == group.protocol:
                return self._keep_generation(join, group, member, _Former(old_id, old_leader, *former))
            case ClassicState.STABLE | ClassicState.COMPLETING_REBALANCE:
                return self._rebalance.prepare(group, reason, now)
            case _:
                return self._rebalance.maybe_complete_join(group, now)

    def _keep_generation(self, join: Join, group: ClassicGroup, member: ClassicMember, former: "_Former") -> Result:
        """No rebalance: only the new id must be in the log before the response."""

        def respond(error: ErrorCode, now: Now) -> None:
            parked = group.take_join(member)
            if parked is None:
                return  # a rebalance has responded since
            if error != ErrorCode.none and group.state == ClassicState.STABLE:
                self._restore(group, member, former, now)
            response = self._static_response(group, member, parked.api_version, former.leader, error)
            self._registry.outbox.reply(parked.token, response)

        return Result(records=(group.record(lambda each: each.assignment),), apply=keep_memory, then=respond)

    def _restore(self, group: ClassicGroup, member: ClassicMember, former: "_Former", now: Now) -> None:
        """Restore the member's old id, which is the one in the log."""
        if member.instance_id is None or group.static_members.get(member.instance_id) != member.member_id:
            return
        self._registry.timers.cancel(heartbeat_key(group.group_id, member.member_id))
        group.update(member, former.protocols, former.rebalance_timeout_ms, former.session_timeout_ms)
        group.rename(member.instance_id, former.member_id)
        self._rebalance.restart_session(group, member, now)

    def _static_response(
        self, group: ClassicGroup, member: ClassicMember, api_version: int, old_leader: str | None, error: ErrorCode
    ) -> object:
        """Since version 9 a leader learns that it is the leader and need not assign (KIP-814); older ones see their predecessor as
        leader."""
        can_skip_assignment = error == ErrorCode.none and api_version >= SKIP_ASSIGNMENT_VERSION
        leads = can_skip_assignment and group.leader == member.member_id
        return join_response(
            api_version,
            error=error,
            member_id=member.member_id if error == ErrorCode.none else UNKNOWN_MEMBER_ID,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader if can_skip_assignment else old_leader,
            skip_assignment=leads,
            members=joined_members(group) if leads else (),
        )

    def _refuse(self, join: Join, error: ErrorCode, member_id: str) -> None:
        response = join_response(join.parked.api_version, error=error, member_id=member_id)
        self._registry.outbox.reply(join.parked.token, response)


@dataclass(frozen=True, slots=True)
class _Former:
    """A static member before its return."""

    member_id: str
    leader: str | None
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int
