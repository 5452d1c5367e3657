"""The topics of an OffsetCommit request: which of their partitions exist, and one response for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from kio.schema.offset_commit.v10.request import OffsetCommitRequestPartition

from isthmus_broker.core.group.responses import commit_topic
from isthmus_broker.core.group.view import ClusterView, TopicView


@dataclass(frozen=True, slots=True)
class RequestedTopic:
    """A topic of a request that exists in the view, and its partitions that do."""

    topic: OffsetCommitRequestTopic
    view: TopicView
    partitions: tuple[OffsetCommitRequestPartition, ...]

    def refused(self, error: ErrorCode) -> OffsetCommitResponseTopic:
        """The same error for each of these partitions."""
        return commit_topic(self.topic, ((each.partition_index, error) for each in self.partitions))


def find_topics(
    view: ClusterView, request: OffsetCommitRequest, *, by_id: bool
) -> tuple[list[RequestedTopic], list[OffsetCommitResponseTopic]]:
    """The partitions that exist, and the refusals of those that do not."""
    requested: list[RequestedTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    for topic in request.topics:
        existing_topic = _find(view, topic, by_id=by_id)
        if existing_topic is None:
            refused.append(commit_topic(topic, ((each.partition_index, unknown) for each in topic.partitions)))
            continue
        exist = range(existing_topic.partitions)
        existing = tuple(each for each in topic.partitions if each.partition_index in exist)
        missing = [each.partition_index for each in topic.partitions if each.partition_index not in exist]
        if missing:
            refused.append(commit_topic(topic, ((index, ErrorCode.unknown_topic_or_partition) for index in missing)))
        if existing:
            requested.append(RequestedTopic(topic, existing_topic, existing))
    return requested, refused


def _find(view: ClusterView, topic: OffsetCommitRequestTopic, *, by_id: bool) -> TopicView | None:
    if not by_id:
        return view.topic(topic.name)
    return view.topic_by_id(topic.topic_id) if topic.topic_id else None


def merge_topics(
    refused: Sequence[OffsetCommitResponseTopic], committed: Sequence[OffsetCommitResponseTopic]
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


def refuse_commit(
    view: ClusterView, request: OffsetCommitRequest, error: ErrorCode, *, by_id: bool
) -> OffsetCommitResponse:
    """Refuse a commit for all partitions that exist; any broker says that the others do not exist."""
    requested, unknown = find_topics(view, request, by_id=by_id)
    topics = merge_topics(unknown, [entry.refused(error) for entry in requested])
    return OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=topics)
