"""A shard with a log in memory, and shorthands for clients' requests."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from isthmus_broker.core.coordinator.result import Note, RequestContext
from isthmus_broker.core.coordinator.runtime import Ready, Runtime
from isthmus_broker.core.group.config import GroupConfig, GroupConfigs
from isthmus_broker.core.group.shard import GroupShard, refuse
from isthmus_broker.core.group.view import ClusterView, Topics, TopicView
from isthmus_model.clocks import MonotonicMs, Now, WallMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import encode_entity, millis
from isthmus_wire.requests import LeaveGroupRequest, OffsetCommitRequestTopic, OffsetFetchRequest
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.leave_group.v5.request import MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from tests.unit.group.loose import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
    TopicPartitions,
    assignment,
    subscription,
)

GROUP = "g"
A, B, C, D = (UUID(int=number) for number in (0xA, 0xB, 0xC, 0xD))
HIGHEST = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    LeaveGroupRequest: 5,
    ConsumerGroupHeartbeatRequest: 1,
    OffsetCommitRequest: 9,
    OffsetFetchRequest: 9,
}


def topic(topic_id: UUID, name: str, partitions: int) -> TopicView:
    """A topic without racks."""
    return TopicView(topic_id, name, ((),) * partitions)


def topics(version: int = 1, **partitions: int) -> Topics:
    """Topics of the ids A, B, C and D by their lower-case names."""
    ids = {"a": A, "b": B, "c": C, "d": D}
    return Topics.of(version, [topic(ids[name], name, count) for name, count in partitions.items()])


@dataclass
class World:
    """One shard; every append succeeds and is committed at once unless a test changes that."""

    config: GroupConfig = field(default_factory=GroupConfig)
    view: ClusterView = field(default_factory=lambda: topics(a=4, b=2))
    now_ms: int = 1_000
    wall_offset_ms: int = 0
    log: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    replies: dict[int, Any] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    auto_append: bool = True
    auto_commit: bool = True
    batch_bytes_max: int = 1_000_000

    def __post_init__(self) -> None:
        self.configs = GroupConfigs(self.config)
        self._ids = itertools.count(1)
        self._tokens = itertools.count(1)
        self.pending: list[tuple[int, tuple[tuple[bytes, bytes | None], ...]]] = []
        self.runtime = self._new_runtime()
        self.load()

    def _new_runtime(self) -> Runtime[ClusterView]:
        def new_shard(timers: Any, outbox: Any) -> GroupShard:
            self.shard = GroupShard(timers, outbox, self.configs, self._new_id)
            return self.shard

        return Runtime(new_shard, refuse, self.view)

    def _new_id(self) -> UUID:
        return UUID(int=next(self._ids))

    @property
    def now(self) -> Now:
        """The current time of both clocks; the wall clock may be set forward or back by `wall_offset_ms`."""
        return Now(WallMs(self.now_ms + self.wall_offset_ms), MonotonicMs(self.now_ms))

    def load(self) -> None:
        """Load the log as a new leader does."""
        self.runtime.load_begin(self.runtime.epoch + 1, lambda: self.batch_bytes_max)
        for offset, (key, value) in enumerate(self.log):
            self.runtime.load(offset, key, value, None, self.now)
        self.runtime.load_end(self.now)
        self.runtime.committed(len(self.log), self.now)
        self.settle()

    def reloaded(self) -> GroupShard:
        """The state after a replay by another leader."""
        other = World(
            config=self.config,
            view=self.view,
            now_ms=self.now_ms,
            wall_offset_ms=self.wall_offset_ms,
            log=list(self.log),
        )
        return other.shard

    # Driving.

    def settle(self) -> Ready | None:
        """Carry out the runtime's outputs until there are none."""
        ready = self.runtime.take()
        while ready.appends or ready.replies or ready.notes:
            self.replies.update(ready.replies)
            self.notes += ready.notes
            self.pending += [(append.seq, append.records) for append in ready.appends]
            if self.auto_append:
                self.append()
            ready = self.runtime.take()
        return None

    def append(self) -> None:
        """Let the waiting append succeed."""
        for seq, records in self.pending:
            self.log += records
            self.runtime.appended(seq, len(self.log) - 1, self.now)
            if self.auto_commit:
                self.runtime.committed(len(self.log), self.now)
        self.pending.clear()

    def fail(self, error: ErrorCode) -> None:
        """Let it fail."""
        ((seq, _),) = self.pending
        self.pending.clear()
        self.runtime.append_failed(seq, error, self.now)
        self.settle()

    def commit(self) -> None:
        """Commit all that is appended."""
        self.runtime.committed(len(self.log), self.now)
        self.settle()

    def submit(self, request: object, api_version: int | None = None, client_id: str = "client") -> int:
        """Send a request; its token."""
        token = next(self._tokens)
        version = HIGHEST.get(type(request), 0) if api_version is None else api_version
        context = RequestContext(api_version=version, client_id=client_id, client_host="/127.0.0.1")
        self.runtime.submit(token, request, context, self.now)
        self.settle()
        return token

    def response_to(self, request: object, api_version: int | None = None) -> Any:
        """Send a request with an immediate response."""
        token = self.submit(request, api_version)
        # Work that follows from the request at once, such as the resolution of a regular expression.
        self.advance(0)
        return self.replies.pop(token)

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at every timer."""
        end = self.now_ms + ms
        while (deadline := self.runtime.deadline()) is not None and deadline <= end:
            self.now_ms = max(self.now_ms, deadline)
            self.runtime.tick(self.now)
            self.settle()
        self.now_ms = end

    def see(self, view: ClusterView) -> None:
        """Change the metadata."""
        self.view = view
        self.runtime.metadata(view, self.now)
        self.settle()

    # The consumer protocol.

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        topics: Iterable[str] | None = None,
        owned: Mapping[UUID, Iterable[int]] | None = None,
        api_version: int = 1,
        **fields: Any,
    ) -> Any:
        """A heartbeat; a full one when it joins."""
        return self.response_to(beat_request(member_id, epoch, topics=topics, owned=owned, **fields), api_version)

    def described(self, group_id: str = GROUP) -> Any:
        """ConsumerGroupDescribe of one group."""
        return self.response_to(
            ConsumerGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=False)
        ).groups[0]

    # The classic protocol.

    def join(self, member_id: str = "", api_version: int | None = None, **fields: Any) -> int:
        """Send JoinGroup; its token."""
        return self.submit(join_request(member_id, **fields), api_version)

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **fields: Any) -> int:
        """Send SyncGroup; its token."""
        return self.submit(sync_request(member_id, generation, assignments, **fields))

    def heartbeat(self, member_id: str, generation: int, **fields: Any) -> ErrorCode:
        """Send Heartbeat; its error."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id, **fields)
        error: ErrorCode = self.response_to(request).error_code
        return error

    def leave(self, *members: MemberIdentity) -> Any:
        """Send LeaveGroup."""
        return self.response_to(LeaveGroupRequest(group_id=GROUP, members=members))

    def new_member(self, **fields: Any) -> tuple[str, int]:
        """A dynamic member's two JoinGroups; its id and the token of the second."""
        member_id = self.replies.pop(self.join(**fields)).member_id
        return member_id, self.join(member_id, **fields)

    def stable_member(self) -> tuple[str, int]:
        """A group of one that has its assignment; the member's id and generation."""
        member_id, token = self.new_member()
        self.advance(self.config.group_initial_rebalance_delay_ms)
        generation = self.replies.pop(token).generation_id
        self.replies.pop(self.sync(member_id, generation, {member_id: b"all"}))
        return member_id, generation

    # Offsets.

    def commit_offsets(
        self, offsets: dict[tuple[str, int], int], api_version: int = 9, **fields: Any
    ) -> dict[tuple[str, int], ErrorCode]:
        """OffsetCommit by names; the error of each partition."""
        response = self.response_to(commit_request(offsets, **fields), api_version)
        return {
            (entry.name, each.partition_index): each.error_code
            for entry in response.topics
            for each in entry.partitions
        }

    def fetch_offsets(self, *partitions: tuple[str, int], group_id: str = GROUP) -> dict[tuple[str, int], int]:
        """OffsetFetch by names, of everything by default."""
        by_name: dict[str, list[int]] = {}
        for name, index in partitions:
            by_name.setdefault(name, []).append(index)
        asked = tuple(
            OffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes)) for name, indexes in by_name.items()
        )
        group = OffsetFetchRequestGroup(group_id=group_id, topics=asked if partitions else None)
        response = self.response_to(OffsetFetchRequest(groups=(group,)), 9).groups[0]
        assert response.error_code == ErrorCode.none
        return {
            (entry.name, each.partition_index): each.committed_offset
            for entry in response.topics
            for each in entry.partitions
        }


def beat_request(
    member_id: str,
    epoch: int,
    *,
    topics: Iterable[str] | None = None,
    owned: Mapping[UUID, Iterable[int]] | None = None,
    **fields: Any,
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat; to join, a full one that subscribes to topic a by default."""
    fields.setdefault("rebalance_timeout", millis(60_000 if epoch == 0 else -1))
    if epoch == 0 and topics is None and "subscribed_topic_regex" not in fields:
        topics = ("a",)
    if epoch == 0 and owned is None:
        owned = {}
    return ConsumerGroupHeartbeatRequest(
        group_id=fields.pop("group_id", GROUP),
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=None if topics is None else tuple(topics),
        topic_partitions=None if owned is None else _owned(owned),
        **fields,
    )


def _owned(owned: Mapping[UUID, Iterable[int]]) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in owned.items())


def assigned(response: Any) -> dict[UUID, tuple[int, ...]] | None:
    """The assignment in a heartbeat's response."""
    if response.assignment is None:
        return None
    return {entry.topic_id: tuple(entry.partitions) for entry in response.assignment.topic_partitions}


def subscribe(*names: str, owned: dict[str, tuple[int, ...]] | None = None) -> bytes:
    """A consumer's metadata."""
    entries = tuple(
        subscription.TopicPartition(topic=name, partitions=indexes) for name, indexes in (owned or {}).items()
    )
    body = subscription.ConsumerProtocolSubscription(topics=names, owned_partitions=entries)
    return b"\0\3" + encode_entity(body)


def assign(**partitions: tuple[int, ...]) -> bytes:
    """A consumer's assignment."""
    entries = tuple(assignment.TopicPartition(topic=name, partitions=indexes) for name, indexes in partitions.items())
    return b"\0\3" + encode_entity(assignment.ConsumerProtocolAssignment(assigned_partitions=entries))


def join_request(
    member_id: str = "",
    *,
    protocols: dict[str, bytes] | None = None,
    protocol_type: str = "consumer",
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
    **fields: Any,
) -> JoinGroupRequest:
    """A consumer of topic a with the range assignor, by default."""
    return JoinGroupRequest(
        group_id=fields.pop("group_id", GROUP),
        session_timeout=millis(session_timeout_ms),
        rebalance_timeout=millis(rebalance_timeout_ms),
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in (protocols or {"range": subscribe("a")}).items()
        ),
        **fields,
    )


def sync_request(
    member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **fields: Any
) -> SyncGroupRequest:
    """A consumer's SyncGroup."""
    fields.setdefault("protocol_type", "consumer")
    fields.setdefault("protocol_name", "range")
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in (assignments or {}).items()
        ),
        **fields,
    )


def commit_request(offsets: dict[tuple[str, int], int], **fields: Any) -> OffsetCommitRequest:
    """Offsets by topic name and partition."""
    metadata = fields.pop("metadata", "")
    by_name: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (name, index), offset in offsets.items():
        partition = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        by_name.setdefault(name, []).append(partition)
    fields.setdefault("group_id", GROUP)
    return OffsetCommitRequest(
        topics=tuple(
            OffsetCommitRequestTopic(name=name, partitions=tuple(entries)) for name, entries in by_name.items()
        ),
        **fields,
    )
