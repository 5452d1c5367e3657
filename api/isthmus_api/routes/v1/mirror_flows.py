"""The flows of mirrors into a cluster, as their topics there tell of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from isthmus_client.admin import topics as topic_admin
from isthmus_client.consumer import ConsumedRecord

from isthmus_api.clusters.latest_records import read_tail
from isthmus_api.limits import TAIL_RECORDS
from isthmus_api.mirror_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    checkpoint,
    flow_topics,
    heartbeat,
    offset_sync,
)
from isthmus_api.models import Shape
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v1.inventory import ClusterIdPath

routes = Routes("Mirror flows", "/api/v1")
T = TypeVar("T")


class HeartbeatData(Shape):
    """When a flow was last alive."""

    source: str
    target: str
    at_ms: int


class CheckpointData(Shape):
    """A group's offset in the source, and what it is here."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int


class OffsetSyncData(Shape):
    """The same record's offset on both sides."""

    topic: str
    partition: int
    upstream_offset: int
    offset: int


class CheckpointTopic(Shape):
    """What a flow from a source has told of groups."""

    source: str
    topic_name: str
    checkpoints: list[CheckpointData]


class OffsetSyncTopic(Shape):
    """Offsets on both sides; `other` is the cluster on the other side."""

    other: str
    topic_name: str
    offset_syncs: list[OffsetSyncData]


class MirrorFlows(Shape):
    """The newest of what the topics hold."""

    heartbeats: list[HeartbeatData]
    checkpoints: list[CheckpointTopic]
    offset_syncs: list[OffsetSyncTopic]


@routes.get("/clusters/{cluster_id}/mirror-flows")
async def list_mirror_flows(call: Call, path: ClusterIdPath) -> MirrorFlows:
    """List what mirrors have told in a cluster: heartbeats, checkpoints, offset syncs."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        topics = flow_topics(await topic_admin.list_topics(client))
        beats = [record for topic in topics.heartbeats for record in await read_tail(client, topic, TAIL_RECORDS)]
        checkpoints = {topic: await read_tail(client, topic, TAIL_RECORDS) for topic in topics.checkpoints.values()}
        syncs = {topic: await read_tail(client, topic, TAIL_RECORDS) for topic in topics.offset_syncs.values()}
    return MirrorFlows(
        heartbeats=_heartbeats(_newest(beats, heartbeat)),
        checkpoints=[
            CheckpointTopic(source=source, topic_name=topic, checkpoints=_checkpoints(checkpoints[topic]))
            for source, topic in topics.checkpoints.items()
        ],
        offset_syncs=[
            OffsetSyncTopic(other=other, topic_name=topic, offset_syncs=_syncs(syncs[topic]))
            for other, topic in topics.offset_syncs.items()
        ],
    )


def _newest(
    records: Iterable[ConsumedRecord], parse: Callable[[bytes | None, bytes | None], T | None]
) -> list[tuple[bytes, T]]:
    """By key the last that was said, unless that was a tombstone."""
    last: dict[bytes, T | None] = {}
    for consumed in records:
        key = bytes(consumed.record.key or b"")
        last[key] = parse(key, consumed.record.value)
    return [(key, told) for key, told in sorted(last.items()) if told is not None]


def _heartbeats(found: list[tuple[bytes, Heartbeat]]) -> list[HeartbeatData]:
    return [HeartbeatData.model_validate(told, from_attributes=True) for _, told in found]


def _checkpoints(records: list[ConsumedRecord]) -> list[CheckpointData]:
    found: list[tuple[bytes, Checkpoint]] = _newest(records, checkpoint)
    return [CheckpointData.model_validate(told, from_attributes=True) for _, told in found]


def _syncs(records: list[ConsumedRecord]) -> list[OffsetSyncData]:
    found: list[tuple[bytes, OffsetSync]] = _newest(records, offset_sync)
    return [OffsetSyncData.model_validate(told, from_attributes=True) for _, told in found]
