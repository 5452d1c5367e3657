"""One shard of the group coordinator: all groups of one partition of __consumer_offsets. Routes each request to its handler."""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from isthmus_wire.requests import LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest
from kio.schema.sync_group.v5.request import SyncGroupRequest

from isthmus_broker.core.coordinator.result import NOTHING, Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.timers import Timers
from isthmus_broker.core.group.classic import Classic, left
from isthmus_broker.core.group.classic_group import ClassicGroup
from isthmus_broker.core.group.classic_in_consumer import ClassicInConsumer
from isthmus_broker.core.group.classic_join import ClassicJoin, Join
from isthmus_broker.core.group.committed import CommittedGroups
from isthmus_broker.core.group.config import OFFSETS_REMOVAL_RETRY_MS, GroupConfigs
from isthmus_broker.core.group.consumer import Consumer
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.consumer_steps import ConsumerSteps
from isthmus_broker.core.group.describe import Describe
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.expiry import Expiry
from isthmus_broker.core.group.migration import Migration
from isthmus_broker.core.group.offsets import Offsets
from isthmus_broker.core.group.rebalance import Rebalance
from isthmus_broker.core.group.records import OffsetCommitKey, OffsetCommitValue, decode_record
from isthmus_broker.core.group.registry import NewId, Registry
from isthmus_broker.core.group.replay import Replay
from isthmus_broker.core.group.responses import consumer_heartbeat_error, join_response, leave_response, refuse
from isthmus_broker.core.group.sessions import Sessions
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.responses import heartbeat_error as streams_heartbeat_error
from isthmus_broker.core.group.streams_heartbeat import StreamsHeartbeat
from isthmus_broker.core.group.streams_sessions import StreamsSessions
from isthmus_broker.core.group.streams_targets import Targets
from isthmus_broker.core.group.transactional_commit import TransactionalCommit
from isthmus_broker.core.group.view import ClusterView, TopicView

__all__ = ["GroupShard", "refuse"]

LEAVE_MEMBERS_VERSION = 3
_REMOVAL_KEY: Final = ("remove", "offsets")

Handler = Callable[[int, Any, RequestContext, Now], Result]


class GroupShard:
    """A state machine for `coordinator.runtime`; `new_id` generates random ids."""

    def __init__(self, timers: Timers, outbox: Outbox, configs: GroupConfigs, new_id: NewId) -> None:
        self.registry = registry = Registry(timers, outbox, configs, new_id)
        rebalance = Rebalance(registry)
        migration = Migration(registry, rebalance)
        steps = ConsumerSteps(registry)
        self._rebalance = rebalance
        self._sessions = sessions = Sessions(registry, migration)
        self.offsets = Offsets(registry, rebalance)
        self._classic = Classic(registry, rebalance)
        self._classic_join = ClassicJoin(registry, rebalance)
        self._consumer = Consumer(registry, steps, sessions, migration)
        self._classic_in_consumer = ClassicInConsumer(registry, steps, sessions, migration)
        self._streams_sessions = StreamsSessions(registry)
        self._streams = StreamsHeartbeat(registry, self._streams_sessions, Targets(registry))
        self._expiry = Expiry(registry, self.offsets)
        self._committed = CommittedGroups(registry)
        self._describe = Describe(registry, self._committed, self.offsets)
        self._replay = Replay(registry, self.offsets, rebalance)
        self._deleted_topics: dict[UUID, TopicView] = {}  # whose offsets are not removed yet
        self._handlers: dict[type, Handler] = {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
            ListGroupsRequest: lambda token, request, context, now: self._describe.list_groups(request),
            DescribeGroupsRequest: lambda token, request, context, now: self._describe.describe(request, context),
            DeleteGroupsRequest: lambda token, request, context, now: self._describe.delete(request),
            ConsumerGroupHeartbeatRequest: lambda token, request, context, now: self._consumer.heartbeat(
                request, context, now
            ),
            ConsumerGroupDescribeRequest: lambda token, request, context, now: self._describe.describe_consumer(
                request
            ),
            StreamsGroupHeartbeatRequest: lambda token, request, context, now: self._streams.heartbeat(
                request, context, now
            ),
            StreamsGroupDescribeRequest: lambda token, request, context, now: self._describe.describe_streams(request),
            OffsetCommitRequest: lambda token, request, context, now: self.offsets.commit(request, context, now),
            OffsetFetchRequest: lambda token, request, context, now: self.offsets.fetch(request, context),
            OffsetDeleteRequest: lambda token, request, context, now: self.offsets.delete(request),
            TransactionalCommit: lambda token, request, context, now: self.offsets.commit_in_transaction(request, now),
            Marker: lambda token, request, context, now: Result(marker=request, response=ErrorCode.none),
        }

    # The runtime's side.

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        """Serve a request; a coordinator's error becomes its response."""
        try:
            return self._handlers[type(request)](token, request, context, now)
        except CoordinatorError as refused:
            return Result(response=_refusal(request, context, refused))

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        """Replay a record; an offset in an open transaction waits for the marker."""
        key, value = record.key, record.value
        if producer is not None and isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            self.offsets.replay_pending(producer.id, key, value, offset)
        else:
            self._replay.apply(record, offset, now)

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        """Keep the groups that an uncommitted batch will change."""
        self._committed.replaying(records, last_offset)

    def committed(self, high_watermark: int) -> None:
        """Records below the high watermark are committed."""
        self.offsets.committed(high_watermark)
        self._committed.committed(high_watermark)

    def end_transaction(self, marker: Marker, offset: int, now: Now) -> None:
        """Commit or discard the offsets of a transaction."""
        self.offsets.end_transaction(marker.producer.id, offset, commits=marker.committed)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """A record of __consumer_offsets."""
        return decode_record(key, value)

    def loaded(self, view: ClusterView, now: Now) -> None:
        """Start timers: every member has a full session from now on."""
        self.registry.see(view)
        for group_id in sorted(self.registry.groups):
            group = self.registry.groups[group_id]
            if isinstance(group, ClassicGroup):
                self._start_classic(group, now)
            elif isinstance(group, StreamsGroup):
                self._streams_sessions.restart(group, now)
            else:
                self._start_consumer(group, now)
        self._expiry.schedule(now)
        self.registry.outbox.note("loaded", str(len(self.registry.groups)), "groups")

    def _start_classic(self, group: ClassicGroup, now: Now) -> None:
        for member in group.members.values():
            self._rebalance.restart_session(group, member, now)
        if len(group.members) > self.registry.config.group_max_size:
            self._rebalance.prepare(group, f"loaded with {len(group.members)} members, more than allowed", now)

    def _start_consumer(self, group: ConsumerGroup, now: Now) -> None:
        for member in group.members.values():
            self._sessions.restart_session(group.group_id, member.member_id, now)
            self._sessions.watch_revocation(group.group_id, member, now)

    def unloaded(self) -> None:
        """Refuse parked requests of classic members, so that they find the new coordinator."""
        for group in self.registry.groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self._rebalance.refuse_join(group, member, ErrorCode.not_coordinator, member.member_id)
                    self._rebalance.refuse_sync(member, ErrorCode.not_coordinator)

    def metadata(self, view: ClusterView, now: Now) -> Result:
        """Groups check changed topics in their next heartbeat; offsets of deleted topics are removed at once."""
        older = self.registry.view
        self.registry.see(view)
        for name in self.offsets.committed_topics():
            topic, current = older.topic(name), view.topic(name)
            if topic is not None and (current is None or current.topic_id != topic.topic_id):
                self._deleted_topics[topic.topic_id] = topic
        return self._remove_offsets(now)

    def _remove_offsets(self, now: Now) -> Result:
        """Remove the offsets of deleted topics; retry until they are removed."""
        topics = tuple(self._deleted_topics.values())
        records = [record for topic in topics for record in self.offsets.topic_tombstones(topic)]

        def conclude(error: ErrorCode, now: Now) -> None:
            if error == ErrorCode.none:
                for topic in topics:
                    self._deleted_topics.pop(topic.topic_id, None)
            else:
                due_ms = now.monotonic + OFFSETS_REMOVAL_RETRY_MS
                self.registry.timers.schedule(_REMOVAL_KEY, due_ms, self._remove_offsets)

        return Result(records=tuple(records), is_atomic=False, then=conclude) if topics else NOTHING

    # Requests of the classic protocol, which members of both group types send.

    def _join(self, token: int, request: JoinGroupRequest, context: RequestContext, now: Now) -> Result:
        join = Join.of(token, request, context)
        config = self.registry.config
        error = ErrorCode.none
        if not join.group_id:
            error = ErrorCode.invalid_group_id
        elif not config.group_min_session_timeout_ms <= join.session_timeout_ms <= config.group_max_session_timeout_ms:
            error = ErrorCode.invalid_session_timeout
        if error != ErrorCode.none:
            return Result(response=join_response(context.api_version, error=error, member_id=join.member_id))
        group = self.registry.groups.get(join.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            return self._classic_in_consumer.join(join, group, now)
        if isinstance(group, StreamsGroup) and group.members:
            return Result(response=join_response(context.api_version, error=ErrorCode.inconsistent_group_protocol))
        return self._classic_join.join(join, now)

    def _sync(self, token: int, request: SyncGroupRequest, context: RequestContext, now: Now) -> Result:
        group = self._group_of_member(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_in_consumer.sync(group, request, now)
        return self._classic.sync(token, group, request, context, now)

    def _heartbeat(self, token: int, request: HeartbeatRequest, context: RequestContext, now: Now) -> Result:
        group = self._group_of_member(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_in_consumer.heartbeat(group, request, now)
        return self._classic.heartbeat(group, request, now)

    def _leave(self, token: int, request: LeaveGroupRequest, context: RequestContext, now: Now) -> Result:
        group = self._group_of_member(request.group_id)
        members = _leaving(request, context)
        if isinstance(group, ConsumerGroup):
            return self._classic_in_consumer.leave(group, members, context, now)
        return self._classic.leave(group, members, context, now)

    def _group_of_member(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        """A missing group has no members, and a streams group no classic ones: the error is UNKNOWN_MEMBER_ID."""
        if not group_id:
            raise CoordinatorError(ErrorCode.invalid_group_id)
        group = self.registry.find(group_id)
        if group is None or isinstance(group, StreamsGroup):
            raise CoordinatorError(ErrorCode.unknown_member_id)
        return group


def _leaving(request: LeaveGroupRequest, context: RequestContext) -> tuple[MemberIdentity, ...]:
    """Up to version 2 a member leaves on its own."""
    if context.api_version >= LEAVE_MEMBERS_VERSION:
        return request.members
    return (MemberIdentity(member_id=request.member_id),)


def _refusal(request: object, context: RequestContext, refused: CoordinatorError) -> object:
    """The error response; three APIs have more than the code."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return consumer_heartbeat_error(refused.error, refused.message)
    if isinstance(request, StreamsGroupHeartbeatRequest):
        return streams_heartbeat_error(refused.error, refused.message)
    if isinstance(request, LeaveGroupRequest) and refused.error == ErrorCode.unknown_member_id:
        responses = [left(identity, refused.error) for identity in _leaving(request, context)]
        return leave_response(context.api_version, responses)
    return refuse(request, context, refused.error)
