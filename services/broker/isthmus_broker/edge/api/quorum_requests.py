"""What the handlers of raft's own requests share: whom they accept, and how they tell where the leader is."""

from collections.abc import Sequence
from typing import Any

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.metadata.result import entity
from isthmus_broker.edge.disk.log_dir import METADATA_TOPIC
from isthmus_broker.edge.drive.raft_requests import METADATA_TOPIC_ID, NOBODY
from isthmus_broker.edge.services import NodeServices


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
    return () if place is None else (entity(kind, node_id=leader_id, host=place[0], port=place[1]),)
