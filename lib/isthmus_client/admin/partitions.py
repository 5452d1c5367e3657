"""Partitions: leader elections and reassignments."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from isthmus_client.client import Client
from isthmus_client.errors import Refused, check
from isthmus_client.metadata import TopicPartition, by_topic

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
Outcomes = dict[TopicPartition, Refused | None]


@dataclass(frozen=True, slots=True)
class Move:
    """A reassignment under way."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def elect(client: Client, partitions: Collection[TopicPartition] | None, *, unclean: bool = False) -> Outcomes:
    """Elect preferred leaders, or with `unclean` any live replica despite data loss. None: all partitions that need it."""
    named = None
    if partitions is not None:
        topics = by_topic(partitions).items()
        named = tuple(entity(TopicPartitions, topic=topic, partitions=tuple(indexes)) for topic, indexes in topics)
    election = _UNCLEAN if unclean else _PREFERRED
    request = entity(ElectLeadersRequest, election_type=election, topic_partitions=named)
    response = await client.send_to_controller(ApiKey.ELECT_LEADERS, request, lambda r: (r.error_code,))
    check(response.error_code, "the election")
    return {
        (partition := TopicPartition(topic.topic, result.partition_id)): _refusal(partition, result)
        for topic in response.replica_election_results
        for result in topic.partition_result
    }


async def reassign(client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
    """Begin to reassign each partition to these brokers, the preferred leader first; None cancels a reassignment."""
    topics = tuple(
        entity(
            ReassignableTopic,
            name=topic,
            partitions=tuple(_reassignment(index, targets[TopicPartition(topic, index)]) for index in indexes),
        )
        for topic, indexes in by_topic(targets).items()
    )
    request = entity(AlterPartitionReassignmentsRequest, topics=topics)
    response = await client.send_to_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, lambda r: (r.error_code,))
    check(response.error_code, "the reassignment", response.error_message)
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): _refusal(partition, result)
        for topic in response.responses
        for result in topic.partitions
    }


async def moves(client: Client) -> list[Move]:
    """The reassignments under way in the cluster."""
    request = entity(ListPartitionReassignmentsRequest, topics=None)
    response = await client.send_to_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, request, lambda r: (r.error_code,))
    check(response.error_code, "the list of reassignments", response.error_message)
    return [
        Move(
            TopicPartition(topic.name, partition.partition_index),
            tuple(partition.replicas),
            tuple(partition.adding_replicas),
            tuple(partition.removing_replicas),
        )
        for topic in response.topics
        for partition in topic.partitions
    ]


def _reassignment(index: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    target = None if replicas is None else tuple(replicas)
    return entity(ReassignablePartition, partition_index=index, replicas=target)


def _refusal(partition: TopicPartition, result: Any) -> Refused | None:
    if result.error_code is ErrorCode.none:
        return None
    return Refused(result.error_code, f"partition {partition}", result.error_message)
