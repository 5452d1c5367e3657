"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, and the removal of offsets when topics and groups are deleted.

An offset is replayed once its record is in the log. Until the record is committed, the value before it is retained for OffsetFetch.

Clients name topics up to version 9 and give their ids from version 10 on; offsets are stored by name, with the topic's id at the time of
the commit, so that those of a deleted topic are not mistaken for those of a new topic with the same name.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, to_millis
from isthmus_wire.requests import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kio.static.primitive import i32

from isthmus_broker.core.coordinator.result import Record, RequestContext, Result
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.commit_checks import CommitChecks, PartitionCheck, stale
from isthmus_broker.core.group.commit_topics import RequestedTopic, find_topics, merge_topics
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.pending import PendingOffsets
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
from isthmus_broker.core.group.transactional_commit import TransactionalCommit, transactional_response
from isthmus_broker.core.group.view import TopicView

TOPIC_ID_VERSION = 10

# Offsets of one group, by topic and partition.
GroupOffsets = dict[str, dict[int, OffsetCommitValue]]
# Partitions of one group, by topic.
Unstable = Mapping[str, Set[int]]
NONE_UNSTABLE: Final[Unstable] = {}


class Offsets:
    """The committed offsets of a shard's groups."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._checks = CommitChecks(registry, rebalance)
        self.pending = PendingOffsets()
        self.by_group: dict[str, GroupOffsets] = {}
        self._groups_by_topic: dict[str, set[str]] = {}
        self._high_watermark = 0
        self._uncommitted: deque[tuple[int, OffsetCommitKey]] = deque()
        # By group, topic and partition: the values before each of its uncommitted records, the committed one first.
        self._before: dict[str, dict[tuple[str, int], deque[OffsetCommitValue | None]]] = {}

    # Replay.

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int) -> None:
        """Replay a committed offset or its tombstone. A group that only commits offsets needs no other record."""
        if value is None:
            self.pending.remove(key)
        else:
            self.pending.supersede(key, offset)
        self._set(key, value, offset)

    def replay_pending(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue, offset: int) -> None:
        """Replay an offset of an open transaction."""
        self._registry.groups.setdefault(key.group, ClassicGroup(key.group))
        self.pending.add(producer_id, key, value, offset)

    def end_transaction(self, producer_id: int, offset: int, *, commits: bool) -> None:
        """Replay a producer's marker, which the log has at `offset`."""
        for key, value, written_at in self.pending.end(producer_id):
            if commits:
                self.pending.supersede(key, written_at)
                self._set(key, value, offset)

    def _set(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int) -> None:
        """Set or remove an offset, which counts as committed once the high watermark is above `offset`."""
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
        records, topics = self._commit(request, lambda: self._checks.plain(request, context, now), now, by_id=by_id)
        return Result(records=records, response=OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=topics))

    def commit_in_transaction(self, commit: TransactionalCommit, now: Now) -> Result:
        """Commit partition by partition; the offsets are pending until the producer's marker."""
        request = commit.as_offset_commit()
        records, topics = self._commit(request, lambda: self._checks.transactional(request), now, with_topic_id=False)
        return Result(
            records=records,
            producer=commit.producer,
            verification=commit.verification,
            response=transactional_response(topics),
        )

    def _commit(
        self,
        request: OffsetCommitRequest,
        may_commit: Callable[[], PartitionCheck],
        now: Now,
        *,
        by_id: bool = False,
        with_topic_id: bool = True,
    ) -> tuple[tuple[Record, ...], tuple[OffsetCommitResponseTopic, ...]]:
        """The records, and the results of all partitions."""
        requested, unknown = find_topics(self._registry.view, request, by_id=by_id)
        if not requested:
            return (), merge_topics(unknown, [])
        records: list[Record] = []
        try:
            check = may_commit()
            outcomes = [self._commit_topic(request, one, check, records, now, with_topic_id) for one in requested]
        except CoordinatorError as refusal:
            records.clear()
            outcomes = [entry.refused(refusal.error) for entry in requested]
        return tuple(records), merge_topics(unknown, outcomes)

    def _commit_topic(
        self,
        request: OffsetCommitRequest,
        requested: RequestedTopic,
        check: PartitionCheck,
        records: list[Record],
        now: Now,
        with_topic_id: bool,
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
                topic_id=requested.view.topic_id if with_topic_id else None,
            )
            records.append(Record(OffsetCommitKey(request.group_id, requested.view.name, index), value))
            results.append((index, ErrorCode.none))
        return commit_topic(requested.topic, results)

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
        unstable = self._unstable(group_id) if newest else NONE_UNSTABLE
        if request.topics is None:
            return OffsetFetchResponseGroup(group_id=request.group_id, topics=self._all(offsets, by_id, unstable))
        fetched, refused_topics = [], []
        for topic in request.topics:
            name = self._name_of(topic, by_id)
            if name is None:
                refused_topics.append(fetched_error(topic, ErrorCode.unknown_topic_id))
            else:
                fetched.append(_fetched_topic(topic, offsets.get(name, {}), unstable.get(name, frozenset())))
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
                raise stale(member)

    def _name_of(self, topic: OffsetFetchRequestTopic, by_id: bool) -> str | None:
        if not by_id:
            return topic.name
        view = self._registry.view.topic_by_id(topic.topic_id) if topic.topic_id is not None else None
        return None if view is None else view.name

    def _unstable(self, group_id: str) -> Unstable:
        """The partitions whose offsets a transaction may change."""
        unstable: dict[str, set[int]] = {}
        for topic, partition in self.pending.partitions(group_id):
            unstable.setdefault(topic, set()).add(partition)
        return unstable

    def _all(self, offsets: GroupOffsets, by_id: bool, unstable: Unstable) -> tuple[OffsetFetchResponseTopic, ...]:
        """Every topic with offsets; by id only those that still exist."""
        topics = []
        for name in sorted(offsets):
            view = self._registry.view.topic(name) if by_id else None
            if by_id and view is None:
                continue
            of_topic, pending = offsets[name], unstable.get(name, frozenset())
            partitions = tuple(_fetched_partition(index, of_topic[index], pending) for index in sorted(of_topic))
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
            is_pending = self.pending.is_unstable(group.group_id, topic.name, index)
            if error == ErrorCode.none and (index in committed or is_pending):
                records.append(Record(OffsetCommitKey(group.group_id, topic.name, index)))
        return tuple(unknown), tuple(existing)

    # Deleted groups and topics.

    def tombstones(self, group_id: str) -> list[Record]:
        """The tombstones of all of a group's offsets, pending ones included."""
        offsets = self.by_group.get(group_id, {})
        committed = {(topic, index) for topic in offsets for index in offsets[topic]}
        places = committed.union(self.pending.partitions(group_id))
        return [Record(OffsetCommitKey(group_id, topic, index)) for topic, index in sorted(places)]

    def committed_topics(self) -> Iterable[str]:
        """Every topic for which a group has committed an offset, pending ones included."""
        pending = {topic for group_id in self.pending.groups() for topic, _ in self.pending.partitions(group_id)}
        return sorted(pending.union(self._groups_by_topic))

    def topic_tombstones(self, deleted: TopicView) -> list[Record]:
        """The tombstones of a deleted topic's offsets, unless they belong to another topic of that name."""
        places = {
            (group_id, index)
            for group_id in self._groups_by_topic.get(deleted.name, ())
            for index, value in self.by_group[group_id][deleted.name].items()
            if value.topic_id is None or value.topic_id == deleted.topic_id
        }
        for group_id in self.pending.groups():
            places |= {(group_id, index) for topic, index in self.pending.partitions(group_id) if topic == deleted.name}
        return [Record(OffsetCommitKey(group_id, deleted.name, index)) for group_id, index in sorted(places)]


def subscribes(group: Group, topic: str) -> bool:
    """Whether the group may be using the topic."""
    return group.subscriptions.includes(topic) if isinstance(group, ConsumerGroup) else group.subscribes_to(topic)


def _deleted(index: i32, error: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=error)


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


def _fetched_topic(
    topic: OffsetFetchRequestTopic, offsets: dict[int, OffsetCommitValue], unstable: Set[int]
) -> OffsetFetchResponseTopic:
    partitions = tuple(
        _fetched_partition(index, _of_topic(offsets.get(index), topic.topic_id), unstable)
        for index in topic.partition_indexes
    )
    return OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _of_topic(value: OffsetCommitValue | None, topic_id: UUID | None) -> OffsetCommitValue | None:
    """Ignore an offset of another topic with the same name."""
    if value is None or value.topic_id is None or topic_id is None or value.topic_id == topic_id:
        return value
    return None


def _fetched_partition(index: int, value: OffsetCommitValue | None, unstable: Set[int]) -> OffsetFetchResponsePartition:
    if index in unstable:
        return fetched(index, ErrorCode.unstable_offset_commit)
    if value is None:
        return fetched(index)
    return fetched(index, ErrorCode.none, value.offset, value.leader_epoch, value.metadata)
