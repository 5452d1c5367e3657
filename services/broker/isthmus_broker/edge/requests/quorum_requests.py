"""What the handlers of raft's own requests share: whom they accept, and how they tell where the leader is."""

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
    """Why a request is not looked into: it comes from another cluster, or is about something else than the metadata log.

    `topics` are names or ids, with partitions. A sender that does not name its cluster may be of this one.
    """
    if cluster_id is not None and cluster_id != node.cluster_id:
        return ErrorCode.inconsistent_cluster_id
    about_metadata = len(topics) == 1 and topics[0][0] in (METADATA_TOPIC, METADATA_TOPIC_ID, METADATA_TOPIC_ID.bytes)
    return ErrorCode.none if about_metadata and list(topics[0][1]) == [0] else ErrorCode.invalid_request


def named(topics: Sequence[Any]) -> list[tuple[str, list[int]]]:
    """The topics of a request that names them, for `refusal`."""
    return [(topic.topic_name, [part.partition_index for part in topic.partitions]) for topic in topics]


def node_id_or_none(leader_id: int | None) -> int:
    """-1 stands for no leader known."""
    return NOBODY if leader_id is None else leader_id


def leader_endpoints(node: NodeServices, kind: type, leader_id: int | None) -> tuple[Any, ...]:
    """Where the leader is, if that is known."""
    place = None if leader_id is None else node.quorum.addresses.find(leader_id)
    return () if place is None else (entity(kind, node_id=leader_id, host=place.host, port=place.port),)


class Kinds(NamedTuple):
    """The classes that the answer of one API is made of."""

    response: type
    topic: type
    partition: type
    endpoint: type


def accepted(node: NodeServices, request: Request, asked: Any, kinds: Kinds) -> Any:
    """What is asked of the metadata log's partition; None when the request is refused, and answered so."""
    error = refusal(node, asked.cluster_id, named(asked.topics))
    if error is ErrorCode.none:
        return asked.topics[0].partitions[0]
    request.respond(entity(kinds.response, error_code=error, topics=()))
    return None


def respond(node: NodeServices, request: Request, kinds: Kinds, answer: Response, **more: Any) -> None:
    """The core's answer, with where the leader is; `more` is what the partition tells beyond error, leader and epoch."""
    result: Any = entity(
        kinds.partition,
        partition_index=0,
        error_code=answer.error,
        leader_id=node_id_or_none(answer.leader_id),
        leader_epoch=answer.epoch,
        **more,
    )
    request.respond(
        entity(
            kinds.response,
            error_code=ErrorCode.none,
            topics=(entity(kinds.topic, topic_name=METADATA_TOPIC, partitions=(result,)),),
            node_endpoints=leader_endpoints(node, kinds.endpoint, answer.leader_id),
        )
    )
