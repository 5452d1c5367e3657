"""Fetch on a controller listener: another replica of the metadata log fetches from this one.

There are no sessions, and only one partition. The response may be delayed until there is something new.
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
    """Pass the fetch to the quorum. The fetch offset acknowledges that everything before it is durable on the replica."""
    version = request.header.api_version
    body = decode_fetch_request(version, bytes(request.frame), request.header.size)
    topics = [(topic, [requested.partition for requested in partitions]) for topic, partitions in body.topics]
    error = refusal(node, body.cluster_id, topics)
    if error is not ErrorCode.none:
        request.reply(*encode_fetch_response(version, FetchResponse((), error.value)))
        return
    topic, (requested,) = body.topics[0]
    response = await node.quorum.handle(
        messages.FetchRequest(
            epoch=requested.current_leader_epoch,
            replica=ReplicaKey(body.replica_id, _directory(requested)),
            fetch_offset=requested.fetch_offset,
            last_fetched_epoch=requested.last_fetched_epoch,
            high_watermark=requested.high_watermark,
            max_wait_ms=body.max_wait_ms,
            max_bytes=requested.max_bytes,
        )
    )
    assert isinstance(response, messages.FetchResponse)
    request.reply(*encode_fetch_response(version, _response(node, topic, response)))


def _directory(requested: FetchPartition) -> UUID | None:
    return UUID(bytes=requested.directory_id) if any(requested.directory_id) else None


def _response(node: NodeServices, topic: Topic, response: messages.FetchResponse) -> FetchResponse:
    diverging, snapshot = response.diverging, response.snapshot
    partition = FetchedPartition(
        0,
        response.error.value,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start,
        records=[entry.payload for entry in response.entries],
        diverging_epoch=None if diverging is None else (diverging.epoch, diverging.end_offset),
        current_leader=(node_id_or_none(response.leader_id), response.epoch),
        snapshot_id=None if snapshot is None else (snapshot.end_offset, snapshot.epoch),
    )
    endpoint = None if response.leader_id is None else node.quorum.addresses.find(response.leader_id)
    endpoints = (
        ()
        if endpoint is None or response.leader_id is None
        else ((response.leader_id, endpoint.host, endpoint.port, None),)
    )
    return FetchResponse(((topic, (partition,)),), node_endpoints=endpoints)
