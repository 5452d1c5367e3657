"""The quorum of controllers: its voters, leader and lag; and the removal of brokers."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis
from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest, Listener
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from isthmus_client.client import Client
from isthmus_client.errors import check
from isthmus_client.limits import REQUEST_SECONDS


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener of a voter."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Replica:
    """A voter or a quorum observer; times are milliseconds since 1970, -1 for never."""

    node_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Quorum:
    """The quorum as the active controller reports it."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]


async def describe_quorum(client: Client) -> Quorum:
    """Describe the quorum; any broker forwards the request to the active controller."""
    topic = entity(TopicData, topic_name=METADATA_TOPIC, partitions=(entity(PartitionData, partition_index=0),))
    request = entity(DescribeQuorumRequest, topics=(topic,))

    def verify(response: Any) -> None:
        check(response.error_code, "the quorum", response.error_message)
        for part in (part for each in response.topics for part in each.partitions):
            check(part.error_code, "the quorum", part.error_message)

    response = await client.send_to_any(ApiKey.DESCRIBE_QUORUM, request, verify)
    part = response.topics[0].partitions[0]
    places = {
        node.node_id: tuple(Endpoint(each.name, each.host, each.port) for each in node.listeners)
        for node in response.nodes
    }
    return Quorum(
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        tuple(_replica(each, places.get(each.replica_id, ())) for each in part.current_voters),
        tuple(_replica(each, ()) for each in part.observers),
    )


def _replica(state: Any, endpoints: tuple[Endpoint, ...]) -> Replica:
    return Replica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        endpoints,
    )


async def add_voter(client: Client, node_id: int, directory_id: UUID, endpoints: tuple[Endpoint, ...]) -> None:
    """Add a caught-up controller to the voters."""
    request = entity(
        AddRaftVoterRequest,
        cluster_id=None,
        timeout=millis(int(REQUEST_SECONDS * 1000)),
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=tuple(entity(Listener, name=each.listener, host=each.host, port=each.port) for each in endpoints),
    )
    await client.send_to_any(ApiKey.ADD_RAFT_VOTER, request, lambda response: _check(response, f"voter {node_id}"))


async def remove_voter(client: Client, node_id: int, directory_id: UUID) -> None:
    """Remove a voter from the quorum, even if it is offline."""
    request = entity(RemoveRaftVoterRequest, cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    await client.send_to_any(ApiKey.REMOVE_RAFT_VOTER, request, lambda response: _check(response, f"voter {node_id}"))


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregister a broker that will not return."""
    request = entity(UnregisterBrokerRequest, broker_id=broker_id)
    await client.send_to_any(
        ApiKey.UNREGISTER_BROKER, request, lambda response: _check(response, f"broker {broker_id}")
    )


def _check(response: Any, what: str) -> None:
    if response.error_code is not ErrorCode.none:
        check(response.error_code, what, response.error_message)
