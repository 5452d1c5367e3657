"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and the removal of offsets when topics and groups are deleted.

An offset is replayed once its record is in the log. Until the record is committed, the value before it is retained for OffsetFetch.

Clients name topics up to version 9 and give their ids from version 10 on; offsets are stored by name, with the topic's id at the time of
the commit, so that those of a deleted topic are not mistaken for those of a new topic with the same name.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, to_millis
from isthmus_wire.requests import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.static.primitive import i32

from isthmus_broker.core.coordinator.result import Record, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.errors import CoordinatorError, UnknownGroup
from isthmus_broker.core.group.member import ConsumerMember
from isthmus_broker.core.group.rebalance import Rebalance
from isthmus_broker.core.group.records import OffsetCommitKey, OffsetCommitValue
from isthmus_broker.core.group.registry import Group, Registry
from isthmus_broker.core.group.responses import (
    commit_topic,
    fetch_group_error,
    fetch_groups,
    fetch_response,
    fetched,
    fetched_error,
)
from isthmus_broker.core.group.streams.group import StreamsGroup
from isthmus_broker.core.group.streams.member import StreamsMember
from isthmus_broker.core.group.streams.offsets import may_commit as streams_member_may_commit
from isthmus_broker.core.group.view import TopicView

TOPIC_ID_VERSION = 10
CONSUMER_PROTOCOL_VERSION = 9

# Offsets of one group, by topic and partition.
GroupOffsets = dict[str, dict[int, OffsetCommitValue]]
# Raises if the member may not commit for a partition of a topic of that name and id.
PartitionCheck = Callable[[str, UUID, int], None]


@dataclass(frozen=True, slots=True)
class _RequestedTopic:
    """A topic of a request that exists in the view."""

    topic: OffsetCommitRequestTopic
    view: TopicView
    partitions: tuple[OffsetCommitRequestPartition, ...]


class Offsets:
    """The committed offsets of a shard's groups."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance
        self.by_group: dict[str, GroupOffsets] = {}
        self._groups_by_topic: dict[str, set[str]] = {}
        self._high_watermark = 0
        self._uncommitted: deque[tuple[int, OffsetCommitKey]] = deque()
        # By group, topic and partition: the values before each of its uncommitted records, the committed one first.
        self._before: dict[str, dict[tuple[str, int], deque[OffsetCommitValue | None]]] = {}

    # Replay.

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int) -> None:
        """Replay a committed offset or its tombstone. A group that only commits offsets needs no other record."""
        if offset >= self._high_watermark:
            before = self.by_group.get(key.group, {}).get(key.topic, {}).get(key.partition)
            values = self._before.setdefault(key.group, {}).setdefault((key.topic, key.partition), deque())
            values.append(before)
            self._uncommitted.append((offset, key))
        if value is None:
            self._remove(key)
            return
        self._registry.groups.setdefault(key.group, ClassicGroup(key.group))
        self.by_group.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = value
        self._groups_by_topic.setdefault(key.topic, set()).add(key.group)

    def _remove(self, key: OffsetCommitKey) -> None:
        topics = self.by_group.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if partitions:
            return
        topics.pop(key.topic, None)
        groups = self._groups_by_topic.get(key.topic, set())
        groups.discard(key.group)
        if not groups:
            self._groups_by_topic.pop(key.topic, None)
        if not topics:
            self.by_group.pop(key.group, None)

    def committed(self, high_watermark: int) -> None:
        """Every record below the high watermark is committed."""
        self._high_watermark = high_watermark
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, key = self._uncommitted.popleft()
            partitions = self._before[key.group]
            values = partitions[key.topic, key.partition]
            values.popleft()
            if not values:
                del partitions[key.topic, key.partition]
                if not partitions:
                    del self._before[key.group]

    def _committed(self, group_id: str) -> GroupOffsets:
        """The group's offsets as of the high watermark."""
        offsets = self.by_group.get(group_id, {})
        if group_id not in self._before:
            return offsets
        offsets = {topic: dict(partitions) for topic, partitions in offsets.items()}
        for (topic, index), values in self._before[group_id].items():
            if values[0] is not None:
                offsets.setdefault(topic, {})[index] = values[0]
            elif topic in offsets:
                offsets[topic].pop(index, None)
        return {topic: partitions for topic, partitions in offsets.items() if partitions}

    # OffsetCommit.

    def commit(self, request: OffsetCommitRequest, context: RequestContext, now: Now) -> Result:
        """Commit partition by partition; a member that may not commit is refused for every partition that exists."""
        by_id = context.api_version >= TOPIC_ID_VERSION
        refused: list[OffsetCommitResponseTopic] = []
        requested: list[_RequestedTopic] = []
        for topic in request.topics:
            self._find(topic, by_id, requested, refused)
        if not requested:
            return Result(response=OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=_merge(refused, [])))
        records: list[Record] = []
        try:
            check = self._may_commit(request, context, now)
            outcomes = [self._commit_topic(request, entry, check, records, now) for entry in requested]
        except CoordinatorError as refusal:
            records.clear()
            outcomes = [
                commit_topic(entry.topic, ((each.partition_index, refusal.error) for each in entry.partitions))
                for entry in requested
            ]
        response = OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=_merge(refused, outcomes))
        return Result(records=tuple(records), response=response)

    def _find(
        self,
        topic: OffsetCommitRequestTopic,
        by_id: bool,
        requested: list[_RequestedTopic],
        refused: list[OffsetCommitResponseTopic],
    ) -> None:
        """Sort a topic's partitions into those that exist and those that are refused."""
        unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        view = self._registry.view.topic_by_id(topic.topic_id) if by_id and topic.topic_id else None
        if not by_id:
            view = self._registry.view.topic(topic.name)
        if view is None:
            refused.append(commit_topic(topic, ((each.partition_index, unknown) for each in topic.partitions)))
            return
        exists = [0 <= each.partition_index < view.partitions for each in topic.partitions]
        existing = tuple(each for each, there in zip(topic.partitions, exists, strict=True) if there)
        missing = [
            (each.partition_index, ErrorCode.unknown_topic_or_partition)
            for each, there in zip(topic.partitions, exists, strict=True)
            if not there
        ]
        if missing:
            refused.append(commit_topic(topic, missing))
        if existing:
            requested.append(_RequestedTopic(topic, view, existing))

    def _commit_topic(
        self,
        request: OffsetCommitRequest,
        requested: _RequestedTopic,
        check: PartitionCheck,
        records: list[Record],
        now: Now,
    ) -> OffsetCommitResponseTopic:
        results: list[tuple[int, ErrorCode]] = []
        retention_ms = to_millis(request.retention_time)
        expire_timestamp = -1 if retention_ms == -1 else now.wall + retention_ms
        metadata_max = self._registry.config.offset_metadata_max_bytes
        for partition in requested.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            if len(metadata) > metadata_max:
                results.append((index, ErrorCode.offset_metadata_too_large))
                continue
            check(requested.view.name, requested.view.topic_id, index)
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp=now.wall,
                expire_timestamp=expire_timestamp,
                topic_id=requested.view.topic_id,
            )
            records.append(Record(OffsetCommitKey(request.group_id, requested.view.name, index), value))
            results.append((index, ErrorCode.none))
        return commit_topic(requested.topic, results)

    def _may_commit(self, request: OffsetCommitRequest, context: RequestContext, now: Now) -> PartitionCheck:
        """Check that the member may commit; returns the check that remains for each partition."""
        group = self._registry.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return _consumer_may_commit(group, request, context)
        if isinstance(group, StreamsGroup):
            epoch, has_epochs = request.generation_id_or_member_epoch, context.api_version >= CONSUMER_PROTOCOL_VERSION
            return streams_member_may_commit(group, request.member_id, epoch, has_epochs=has_epochs) or _any_partition
        if group is not None:
            self._classic_may_commit(group, request, now)
        elif request.generation_id_or_member_epoch >= 0:
            if context.api_version >= CONSUMER_PROTOCOL_VERSION:
                raise UnknownGroup(f"Group {request.group_id} not found.")
            raise CoordinatorError(ErrorCode.illegal_generation)
        return _any_partition

    def _classic_may_commit(self, group: ClassicGroup, request: OffsetCommitRequest, now: Now) -> None:
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

    # OffsetFetch.

    def fetch(self, request: OffsetFetchRequest, context: RequestContext) -> Result:
        """Each group's offsets, or the error.

        The committed offsets are returned at once; for a client that requires stable ones, the newest once they are committed. Members may
        be refused because of records that are not committed yet, so an error waits for them as well.
        """
        newest = request.require_stable
        groups = tuple(
            self._fetch_group(group, context, newest=newest) for group in fetch_groups(request, context.api_version)
        )
        is_refused = any(group.error_code != ErrorCode.none for group in groups)
        return Result(response=fetch_response(groups), is_committed=not newest and not is_refused)

    def _fetch_group(
        self, request: OffsetFetchRequestGroup, context: RequestContext, *, newest: bool
    ) -> OffsetFetchResponseGroup:
        try:
            self._may_fetch(request)
        except CoordinatorError as refused:
            return fetch_group_error(request, refused.error, context.api_version)
        group_id, by_id = request.group_id, context.api_version >= TOPIC_ID_VERSION
        offsets = self.by_group.get(group_id, {}) if newest else self._committed(group_id)
        if request.topics is None:
            return OffsetFetchResponseGroup(group_id=request.group_id, topics=self._all(offsets, by_id))
        fetched, refused_topics = [], []
        for topic in request.topics:
            name = self._name_of(topic, by_id)
            if name is None:
                refused_topics.append(fetched_error(topic, ErrorCode.unknown_topic_id))
            else:
                fetched.append(_fetched_topic(topic, offsets.get(name, {})))
        return OffsetFetchResponseGroup(group_id=request.group_id, topics=(*fetched, *refused_topics))

    def _may_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Check that a member of a consumer or streams group is at its epoch."""
        group = self._registry.groups.get(request.group_id)
        is_member = request.member_id is not None or request.member_epoch >= 0
        if isinstance(group, ConsumerGroup | StreamsGroup) and is_member:
            member = group.members.get(request.member_id or "")
            if member is None:
                raise CoordinatorError(ErrorCode.unknown_member_id)
            if request.member_epoch != member.epoch:
                raise _stale(member)

    def _name_of(self, topic: OffsetFetchRequestTopic, by_id: bool) -> str | None:
        if not by_id:
            return topic.name
        view = self._registry.view.topic_by_id(topic.topic_id) if topic.topic_id is not None else None
        return None if view is None else view.name

    def _all(self, offsets: GroupOffsets, by_id: bool) -> tuple[OffsetFetchResponseTopic, ...]:
        """Every topic with offsets; by id only those that still exist."""
        topics = []
        for name in sorted(offsets):
            view = self._registry.view.topic(name) if by_id else None
            if by_id and view is None:
                continue
            partitions = tuple(_fetched_partition(index, offsets[name][index]) for index in sorted(offsets[name]))
            topic_id = None if view is None else view.topic_id
            topics.append(OffsetFetchResponseTopic(name=name, topic_id=topic_id, partitions=partitions))
        return tuple(topics)

    # OffsetDelete.

    def delete(self, request: OffsetDeleteRequest) -> Result:
        """Delete offsets of topics to which the group is no longer subscribed."""
        if not request.group_id:
            raise CoordinatorError(ErrorCode.invalid_group_id)
        group = self._registry.group(request.group_id)
        busy = isinstance(group, ClassicGroup) and group.state != ClassicState.EMPTY
        if isinstance(group, ClassicGroup) and busy and not group.uses_consumer_protocol:
            raise CoordinatorError(ErrorCode.non_empty_group)
        records: list[Record] = []
        unknown, existing = [], []
        for topic in request.topics:
            results = self._delete_topic(group, topic, records)
            unknown.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results[0]))
            existing.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results[1]))
        topics = _merge_deleted([one for one in unknown if one.partitions], [one for one in existing if one.partitions])
        response = OffsetDeleteResponse(error_code=ErrorCode.none, throttle_time=NO_THROTTLE, topics=topics)
        return Result(records=tuple(records), response=response)

    def _delete_topic(
        self, group: Group, topic: OffsetDeleteRequestTopic, records: list[Record]
    ) -> tuple[tuple[OffsetDeleteResponsePartition, ...], tuple[OffsetDeleteResponsePartition, ...]]:
        """The results for partitions that do not exist, and for those that do."""
        view = self._registry.view.topic(topic.name)
        exist = range(0 if view is None else view.partitions)
        error = ErrorCode.group_subscribed_to_topic if subscribes(group, topic.name) else ErrorCode.none
        committed = self.by_group.get(group.group_id, {}).get(topic.name, {})
        unknown, existing = [], []
        for partition in topic.partitions:
            index = partition.partition_index
            if index not in exist:
                unknown.append(_deleted(index, ErrorCode.unknown_topic_or_partition))
                continue
            existing.append(_deleted(index, error))
            if error == ErrorCode.none and index in committed:
                records.append(Record(OffsetCommitKey(group.group_id, topic.name, index)))
        return tuple(unknown), tuple(existing)

    # Deleted groups and topics.

    def tombstones(self, group_id: str) -> list[Record]:
        """The tombstones of all of a group's offsets."""
        offsets = self.by_group.get(group_id, {})
        return [
            Record(OffsetCommitKey(group_id, topic, index))
            for topic in sorted(offsets)
            for index in sorted(offsets[topic])
        ]

    def committed_topics(self) -> Iterable[str]:
        """Every topic for which a group has committed an offset."""
        return sorted(self._groups_by_topic)

    def topic_tombstones(self, deleted: TopicView) -> list[Record]:
        """The tombstones of a deleted topic's offsets, unless they belong to another topic of that name."""
        return [
            Record(OffsetCommitKey(group_id, deleted.name, index))
            for group_id in sorted(self._groups_by_topic.get(deleted.name, ()))
            for index, value in sorted(self.by_group[group_id][deleted.name].items())
            if value.topic_id is None or value.topic_id == deleted.topic_id
        ]


def subscribes(group: Group, topic: str) -> bool:
    """Whether the group may be using the topic."""
    return group.subscriptions.includes(topic) if isinstance(group, ConsumerGroup) else group.subscribes_to(topic)


def _deleted(index: i32, error: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=error)


def _any_partition(name: str, topic_id: UUID, index: int) -> None:
    """Check for no member, or a member at its epoch: every partition may be committed."""


def _consumer_may_commit(group: ConsumerGroup, request: OffsetCommitRequest, context: RequestContext) -> PartitionCheck:
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return _any_partition
    member = group.member(request.member_id)
    if member.classic is None and context.api_version < CONSUMER_PROTOCOL_VERSION:
        raise CoordinatorError(ErrorCode.unsupported_version)
    if epoch == member.epoch:
        return _any_partition
    if epoch > member.epoch:
        raise _stale(member)

    def check(name: str, topic_id: UUID, index: int) -> None:
        """KIP-1251: a member at an older epoch may still commit for partitions that it has owned since then."""
        since = member.assignment_epoch(topic_id, index)
        if since is None or epoch < since:
            raise _stale(member)

    return check


def _stale(member: ConsumerMember | StreamsMember) -> CoordinatorError:
    is_classic = isinstance(member, ConsumerMember) and member.classic is not None
    return CoordinatorError(ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch)


def _merge(
    refused: list[OffsetCommitResponseTopic], committed: list[OffsetCommitResponseTopic]
) -> tuple[OffsetCommitResponseTopic, ...]:
    """One entry for each topic, refused partitions first; without refused ones, one for each entry of the request."""
    if not refused:
        return tuple(committed)
    merged: dict[tuple[str, UUID | None], OffsetCommitResponseTopic] = {}
    for topic in (*refused, *committed):
        key = (topic.name, topic.topic_id)
        earlier = merged[key].partitions if key in merged else ()
        merged[key] = OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=(*earlier, *topic.partitions)
        )
    return tuple(merged.values())


def _merge_deleted(
    unknown: list[OffsetDeleteResponseTopic], existing: list[OffsetDeleteResponseTopic]
) -> tuple[OffsetDeleteResponseTopic, ...]:
    """The same for OffsetDelete."""
    if not unknown:
        return tuple(existing)
    merged: dict[str, OffsetDeleteResponseTopic] = {}
    for topic in (*unknown, *existing):
        earlier = merged[topic.name].partitions if topic.name in merged else ()
        merged[topic.name] = OffsetDeleteResponseTopic(name=topic.name, partitions=(*earlier, *topic.partitions))
    return tuple(merged.values())


def _fetched_topic(topic: OffsetFetchRequestTopic, offsets: dict[int, OffsetCommitValue]) -> OffsetFetchResponseTopic:
    partitions = tuple(
        _fetched_partition(index, _of_topic(offsets.get(index), topic.topic_id)) for index in topic.partition_indexes
    )
    return OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _of_topic(value: OffsetCommitValue | None, topic_id: UUID | None) -> OffsetCommitValue | None:
    """Ignore an offset of another topic with the same name."""
    if value is None or value.topic_id is None or topic_id is None or value.topic_id == topic_id:
        return value
    return None


def _fetched_partition(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartition:
    if value is None:
        return fetched(index)
    return fetched(index, ErrorCode.none, value.offset, value.leader_epoch, value.metadata)
