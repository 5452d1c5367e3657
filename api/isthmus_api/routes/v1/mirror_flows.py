"""The mirror flows into a cluster, from the records in MirrorMaker's topics there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from isthmus_client.admin import topics as topic_admin
from isthmus_client.consumer import ConsumedRecord
from isthmus_model.mirror_maker import flow_topics, parse_checkpoint, parse_heartbeat, parse_offset_sync

from isthmus_api.clusters.latest_records import read_tail
from isthmus_api.limits import TAIL_RECORDS
from isthmus_api.models import Shape
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.routes.v1.inventory import ClusterIdPath

routes = Routes("Mirror flows", "/api/v1")
T = TypeVar("T")
S = TypeVar("S", bound=Shape)


class HeartbeatData(Shape):
    """The last heartbeat of a flow."""

    source: str
    target: str
    at_ms: int


class CheckpointData(Shape):
    """A group's offset in the source, and its translation."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int


class OffsetSyncData(Shape):
    """One record's offsets in source and target."""

    topic: str
    partition: int
    upstream_offset: int
    offset: int


class CheckpointTopic(Shape):
    """The checkpoints of a flow from this source."""

    source: str
    topic_name: str
    checkpoints: list[CheckpointData]


class OffsetSyncTopic(Shape):
    """Offsets on both sides; `other` is the cluster on the other side."""

    other: str
    topic_name: str
    offset_syncs: list[OffsetSyncData]


class MirrorFlows(Shape):
    """The newest records of these topics."""

    heartbeats: list[HeartbeatData]
    checkpoints: list[CheckpointTopic]
    offset_syncs: list[OffsetSyncTopic]


@routes.get("/clusters/{cluster_id}/mirror-flows")
async def list_mirror_flows(call: Call, path: ClusterIdPath) -> MirrorFlows:
    """List the heartbeats, checkpoints and offset syncs of mirror flows in a cluster."""
    async with call.parts.clusters.use(path.cluster_id) as client:
        topics = flow_topics(await topic_admin.list_topics(client))
        beats = [record for topic in topics.heartbeats for record in await read_tail(client, topic, TAIL_RECORDS)]
        checkpoints = {topic: await read_tail(client, topic, TAIL_RECORDS) for topic in topics.checkpoints.values()}
        syncs = {topic: await read_tail(client, topic, TAIL_RECORDS) for topic in topics.offset_syncs.values()}
    return MirrorFlows(
        heartbeats=_shapes(HeartbeatData, _newest(beats, parse_heartbeat)),
        checkpoints=[
            CheckpointTopic(
                source=source,
                topic_name=topic,
                checkpoints=_shapes(CheckpointData, _newest(checkpoints[topic], parse_checkpoint)),
            )
            for source, topic in topics.checkpoints.items()
        ],
        offset_syncs=[
            OffsetSyncTopic(
                other=other,
                topic_name=topic,
                offset_syncs=_shapes(OffsetSyncData, _newest(syncs[topic], parse_offset_sync)),
            )
            for other, topic in topics.offset_syncs.items()
        ],
    )


def _newest(records: Iterable[ConsumedRecord], parse: Callable[[bytes | None, bytes | None], T | None]) -> list[T]:
    """The latest record of each key, unless that is a tombstone."""
    last: dict[bytes, T | None] = {}
    for consumed in records:
        key = bytes(consumed.record.key or b"")
        last[key] = parse(key, consumed.record.value)
    return [record for _, record in sorted(last.items()) if record is not None]


def _shapes(shape: type[S], records: Iterable[object]) -> list[S]:
    return [shape.model_validate(record, from_attributes=True) for record in records]
