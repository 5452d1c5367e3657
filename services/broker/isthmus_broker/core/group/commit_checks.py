"""Whether a client may commit offsets for a group, alone or in a transaction."""

from collections.abc import Callable
from typing import Final
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import OffsetCommitRequest

from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.errors import CoordinatorError, UnknownGroup
from isthmus_broker.core.group.member import ConsumerMember
from isthmus_broker.core.group.rebalance import Rebalance
from isthmus_broker.core.group.registry import Registry
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.streams.offsets import may_commit as streams_member_may_commit

CONSUMER_PROTOCOL_VERSION: Final = 9
PartitionCheck = Callable[[str, UUID, int], None]
"""Raises CoordinatorError if the member may not commit for a partition of a topic of that name and id."""


class CommitChecks:
    """Each check raises CoordinatorError, or returns the check that remains for each partition."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance

    def plain(self, request: OffsetCommitRequest, context: RequestContext, now: Now) -> PartitionCheck:
        """Check OffsetCommit. A member of a classic group gets a new session."""
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return _by_member_epoch(group, request, context)
        if isinstance(group, StreamsGroup):
            epoch, has_epochs = request.generation_id_or_member_epoch, context.api_version >= CONSUMER_PROTOCOL_VERSION
            return streams_member_may_commit(group, request.member_id, epoch, has_epochs=has_epochs) or _any_partition
        if group is not None:
            self._by_generation(group, request, now)
        elif request.generation_id_or_member_epoch >= 0:
            if context.api_version >= CONSUMER_PROTOCOL_VERSION:
                raise UnknownGroup(f"Group {request.group_id} not found.")
            raise CoordinatorError(ErrorCode.illegal_generation)
        return _any_partition

    def transactional(self, request: OffsetCommitRequest) -> PartitionCheck:
        """Check TxnOffsetCommit. A producer that names no member commits for the group in any state."""
        group = self._registry.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        names_member = generation >= 0 or bool(request.member_id) or request.group_instance_id is not None
        if group is None:
            if generation >= 0:
                raise CoordinatorError(ErrorCode.illegal_generation)
        elif not names_member:
            pass
        elif isinstance(group, ConsumerGroup):
            return _of_transaction(group, request)
        elif isinstance(group, StreamsGroup):
            return _of_streams_transaction(group, request)
        elif generation >= 0 or group.state != ClassicState.EMPTY:
            group.validate_member(request.member_id, request.group_instance_id)
            if generation != group.generation:
                raise CoordinatorError(ErrorCode.illegal_generation)
        return _any_partition

    def _by_generation(self, group: ClassicGroup, request: OffsetCommitRequest, now: Now) -> None:
        generation = request.generation_id_or_member_epoch
        if generation < 0 and group.state == ClassicState.EMPTY:
            return
        if generation < 0 and not request.member_id and request.group_instance_id is None:
            raise CoordinatorError(ErrorCode.unknown_member_id)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if generation != group.generation:
            raise CoordinatorError(ErrorCode.illegal_generation)
        if group.state == ClassicState.COMPLETING_REBALANCE:
            raise CoordinatorError(ErrorCode.rebalance_in_progress)
        self._rebalance.restart_session(group, member, now)


def stale(member: ConsumerMember | StreamsMember) -> CoordinatorError:
    """The refusal of a request with another member epoch."""
    is_classic = isinstance(member, ConsumerMember) and member.classic is not None
    return CoordinatorError(ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch)


def _any_partition(name: str, topic_id: UUID, index: int) -> None:
    """Check for no member, or a member at its epoch: every partition may be committed."""


def _by_member_epoch(group: ConsumerGroup, request: OffsetCommitRequest, context: RequestContext) -> PartitionCheck:
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return _any_partition
    member = group.member(request.member_id)
    if member.classic is None and context.api_version < CONSUMER_PROTOCOL_VERSION:
        raise CoordinatorError(ErrorCode.unsupported_version)
    return _by_epoch(member, epoch, stale(member))


def _of_transaction(group: ConsumerGroup, request: OffsetCommitRequest) -> PartitionCheck:
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return _any_partition
    return _by_epoch(group.member(request.member_id), epoch, CoordinatorError(ErrorCode.illegal_generation))


def _of_streams_transaction(group: StreamsGroup, request: OffsetCommitRequest) -> PartitionCheck:
    """As for OffsetCommit, but producers know no stale member epochs."""
    try:
        check = streams_member_may_commit(group, request.member_id, request.generation_id_or_member_epoch)
    except CoordinatorError as refusal:
        raise _for_producers(refusal) from None

    def checked(name: str, topic_id: UUID, index: int) -> None:
        try:
            (check or _any_partition)(name, topic_id, index)
        except CoordinatorError as refusal:
            raise _for_producers(refusal) from None

    return checked


def _for_producers(refusal: CoordinatorError) -> CoordinatorError:
    is_stale = refusal.error is ErrorCode.stale_member_epoch
    return CoordinatorError(ErrorCode.illegal_generation) if is_stale else refusal


def _by_epoch(member: ConsumerMember, epoch: int, refusal: CoordinatorError) -> PartitionCheck:
    if epoch == member.epoch:
        return _any_partition
    if epoch > member.epoch:
        raise refusal

    def check(name: str, topic_id: UUID, index: int) -> None:
        """KIP-1251: a member at an older epoch may still commit for partitions that it has owned since then."""
        since = member.assignment_epoch(topic_id, index)
        if since is None or epoch < since:
            raise refusal

    return check
