"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol, for classic groups."""

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.leave_group.v5.response import MemberResponse
from kio.schema.sync_group.v5.request import SyncGroupRequest

from isthmus_broker.core.coordinator.result import NOTHING, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicMember, ClassicState, Parked
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.rebalance import Rebalance, heartbeat_key, keep_memory
from isthmus_broker.core.group.registry import UNKNOWN_MEMBER_ID, Registry
from isthmus_broker.core.group.responses import heartbeat_response, leave_response, sync_response


class Classic:
    """A classic group's members after they have joined."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance

    # SyncGroup.

    def sync(
        self, token: int, group: ClassicGroup, request: SyncGroupRequest, context: RequestContext, now: Now
    ) -> Result:
        """SyncGroup: return a member's assignment; the leader's request contains all assignments."""
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise CoordinatorError(ErrorCode.illegal_generation)
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
            raise CoordinatorError(ErrorCode.inconsistent_group_protocol)
        if group.state == ClassicState.PREPARING_REBALANCE:
            raise CoordinatorError(ErrorCode.rebalance_in_progress)
        self._rebalance.received_sync(group, member.member_id)
        if group.state == ClassicState.STABLE:
            response = sync_response(ErrorCode.none, member.assignment, group.protocol_type, group.protocol)
            self._registry.outbox.reply(token, response)
            return NOTHING
        self._rebalance.refuse_sync(
            member, ErrorCode.rebalance_in_progress
        )  # left over from a connection that the client closed
        member.syncing = Parked(token, context.api_version)
        return self._store(group, request) if group.leader == member.member_id else NOTHING

    def _store(self, group: ClassicGroup, request: SyncGroupRequest) -> Result:
        """The assignments take effect once they are committed, unless there is a new generation by then."""
        given = {entry.member_id: entry.assignment for entry in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def conclude(error: ErrorCode, now: Now) -> None:
            if group.state != ClassicState.COMPLETING_REBALANCE or group.generation != generation:
                return
            if error == ErrorCode.none:
                self._rebalance.set_assignments(group, assignments, now)
                group.move(ClassicState.STABLE, now)
                self._registry.outbox.note("rebalanced", group.group_id, f"generation {generation}")
            else:
                self._rebalance.reset_assignments(group, error, now)
                self._rebalance.prepare(group, f"{error.name} when storing the assignment", now)

        record = group.record(lambda member: assignments[member.member_id])
        return Result(records=(record,), apply=keep_memory, then=conclude)

    # Heartbeat.

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest, now: Now) -> Result:
        """Heartbeat: keep a member alive, and report whether it must join again."""
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise CoordinatorError(ErrorCode.illegal_generation)
        self._rebalance.restart_session(group, member, now)
        preparing = group.state == ClassicState.PREPARING_REBALANCE
        return Result(response=heartbeat_response(ErrorCode.rebalance_in_progress if preparing else ErrorCode.none))

    # LeaveGroup.

    def leave(
        self, group: ClassicGroup, identities: tuple[MemberIdentity, ...], context: RequestContext, now: Now
    ) -> Result:
        """LeaveGroup: remove members, each with its own result, with one rebalance for all of them."""
        responses = [self._leave_one(group, identity) for identity in identities]
        response = leave_response(context.api_version, responses)
        result = NOTHING
        if any(response.error_code == ErrorCode.none for response in responses):
            reasons = sorted({identity.reason or "not provided" for identity in identities})
            reason = f"{len(responses)} members leave; client reasons: {', '.join(reasons)}"
            if group.state == ClassicState.PREPARING_REBALANCE:
                result = self._rebalance.maybe_complete_join(group, now)
            elif group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
                result = self._rebalance.prepare(group, reason, now)
        return Result(records=result.records, apply=result.apply, response=response)

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> MemberResponse:
        try:
            self._remove(group, identity)
        except CoordinatorError as refused:
            return left(identity, refused.error)
        return left(identity)

    def _remove(self, group: ClassicGroup, identity: MemberIdentity) -> None:
        """An administrator may identify static members by instance id alone."""
        member: ClassicMember
        if identity.member_id == UNKNOWN_MEMBER_ID:
            holder = group.static_members.get(identity.group_instance_id or "")
            if holder is None:
                raise CoordinatorError(ErrorCode.unknown_member_id)
            member = group.members[holder]
        elif identity.member_id in group.pending_joins:
            group.remove(identity.member_id)
            self._registry.timers.cancel(heartbeat_key(group.group_id, identity.member_id))
            return
        else:
            member = group.validate_member(identity.member_id, identity.group_instance_id)
        self._rebalance.remove(group, member)


def left(identity: MemberIdentity, error: ErrorCode = ErrorCode.none) -> MemberResponse:
    """One member's result."""
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)


def _differs(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current
