"""Shared by the handlers of raft's requests: validation, and the leader's endpoints in responses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft.messages import Response
from isthmus_broker.edge.quorum.raft_requests import METADATA_TOPIC_ID, NOBODY
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


def refusal(node: NodeServices, cluster_id: str | None, topics: Sequence[tuple[Any, Sequence[int]]]) -> ErrorCode:
    """Why a request is refused: it comes from another cluster, or is not about the metadata log.

    `topics` are names or ids, with partitions. A request without a cluster id is accepted.
    """
    if cluster_id is not None and cluster_id != node.cluster_id:
        return ErrorCode.inconsistent_cluster_id
    about_metadata = len(topics) == 1 and topics[0][0] in (METADATA_TOPIC, METADATA_TOPIC_ID, METADATA_TOPIC_ID.bytes)
    return ErrorCode.none if about_metadata and list(topics[0][1]) == [0] else ErrorCode.invalid_request


def named(topics: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """The topics of a request that names topics, in the form for `refusal`."""
    return [(topic.topic_name, [part.partition_index for part in topic.partitions]) for topic in topics]


def node_id_or_none(leader_id: int | None) -> int:
    """The node id of the leader, -1 if it is unknown."""
    return NOBODY if leader_id is None else leader_id


def leader_endpoints(node: NodeServices, kind: type, leader_id: int | None) -> tuple[Any, ...]:
    """The leader's endpoint, if known."""
    endpoint = None if leader_id is None else node.quorum.addresses.find(leader_id)
    return () if endpoint is None else (entity(kind, node_id=leader_id, host=endpoint.host, port=endpoint.port),)


class Kinds(NamedTuple):
    """The classes of one API's response."""

    response: type
    topic: type
    partition: type
    endpoint: type


def accepted(node: NodeServices, request: Request, body: Any, kinds: Kinds) -> Any:
    """Return the request's part about the metadata log's partition; None if the request was refused, with a response."""
    error = refusal(node, body.cluster_id, named(body.topics))
    if error is ErrorCode.none:
        return body.topics[0].partitions[0]
    request.respond(entity(kinds.response, error_code=error, topics=()))
    return None


def respond(node: NodeServices, request: Request, kinds: Kinds, response: Response, **fields: Any) -> None:
    """Respond with the core's response and the leader's endpoint; `fields` belong to the partition beside error, leader and epoch."""
    result: Any = entity(
        kinds.partition,
        partition_index=0,
        error_code=response.error,
        leader_id=node_id_or_none(response.leader_id),
        leader_epoch=response.epoch,
        **fields,
    )
    request.respond(
        entity(
            kinds.response,
            error_code=ErrorCode.none,
            topics=(entity(kinds.topic, topic_name=METADATA_TOPIC, partitions=(result,)),),
            node_endpoints=leader_endpoints(node, kinds.endpoint, response.leader_id),
        )
    )
