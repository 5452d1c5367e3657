"""Fetch on a controller listener: another replica of the metadata log fetches from this one.

There are no sessions, and one partition. The answer may be held for a while, until there is something new.
"""

from uuid import UUID

from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    decode_fetch_request,
    encode_fetch_response,
)

from isthmus_broker.core.raft import messages
from isthmus_broker.core.raft.types import ReplicaKey
from isthmus_broker.edge.requests.quorum_requests import node_id_or_none, refusal
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


async def handle(node: NodeServices, request: Request) -> None:
    """The fetched offset says how far the replica has the log durably."""
    version = request.header.api_version
    asked = decode_fetch_request(version, bytes(request.frame), request.header.size)
    topics = [(topic, [wanted.partition for wanted in partitions]) for topic, partitions in asked.topics]
    error = refusal(node, asked.cluster_id, topics)
    if error is not ErrorCode.none:
        request.reply(*encode_fetch_response(version, FetchResponse((), error.value)))
        return
    topic, (wanted,) = asked.topics[0]
    answer = await node.quorum.handle(
        messages.FetchRequest(
            epoch=wanted.current_leader_epoch,
            replica=ReplicaKey(asked.replica_id, _directory(wanted)),
            fetch_offset=wanted.fetch_offset,
            last_fetched_epoch=wanted.last_fetched_epoch,
            high_watermark=wanted.high_watermark,
            max_wait_ms=asked.max_wait_ms,
            max_bytes=wanted.max_bytes,
        )
    )
    assert isinstance(answer, messages.FetchResponse)
    request.reply(*encode_fetch_response(version, _response(node, topic, answer)))


def _directory(wanted: FetchPartition) -> UUID | None:
    return UUID(bytes=wanted.directory_id) if any(wanted.directory_id) else None


def _response(node: NodeServices, topic: Topic, answer: messages.FetchResponse) -> FetchResponse:
    diverging, snapshot = answer.diverging, answer.snapshot
    partition = FetchedPartition(
        0,
        answer.error.value,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start,
        records=[entry.payload for entry in answer.entries],
        diverging_epoch=None if diverging is None else (diverging.epoch, diverging.end_offset),
        current_leader=(node_id_or_none(answer.leader_id), answer.epoch),
        snapshot_id=None if snapshot is None else (snapshot.end_offset, snapshot.epoch),
    )
    place = None if answer.leader_id is None else node.quorum.addresses.find(answer.leader_id)
    endpoints = () if place is None or answer.leader_id is None else ((answer.leader_id, place.host, place.port, None),)
    return FetchResponse(((topic, (partition,)),), node_endpoints=endpoints)
