"""Replica lag as the partitions' leaders report it. Only Isthmus clusters support it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.replicas import DescribedPartition, DescribeReplicasRequest, ReplicasOfTopic

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, Refused
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.requests_by_broker import by_leader


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """One replica; -1 where its leader does not know a value."""

    broker: int
    is_leader: bool
    is_observer: bool
    is_isr_eligible: bool
    is_in_isr: bool
    is_caught_up: bool
    caught_up_lag_ms: int
    fetch_lag_ms: int
    log_start: int
    log_end: int


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition's replicas in the order of its assignment."""

    leader_epoch: int
    replicas: tuple[ReplicaStatus, ...]


async def replica_status(
    client: Client, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionStatus | ClientError]:
    """The status of each partition from its leader, or the error of one without a leader."""

    async def send(
        connection: Connection, share: dict[TopicPartition, None]
    ) -> dict[TopicPartition, PartitionStatus | ClientError]:
        topics = tuple(ReplicasOfTopic(name=topic, partitions=tuple(ids)) for topic, ids in by_topic(share).items())
        response = await connection.request(ApiKey.DESCRIBE_REPLICAS, DescribeReplicasRequest(topics=topics))
        return {
            (partition := TopicPartition(topic.name, described.index)): _status(partition, described)
            for topic in response.topics
            for described in topic.partitions
        }

    return await by_leader(client, "describe replicas", dict.fromkeys(partitions), send)


def _status(partition: TopicPartition, described: DescribedPartition) -> PartitionStatus | ClientError:
    if described.error_code is not ErrorCode.none:
        return Refused(described.error_code, f"partition {partition}")
    return PartitionStatus(
        described.leader_epoch,
        tuple(
            ReplicaStatus(
                replica.broker_id,
                replica.is_leader,
                replica.is_observer,
                replica.is_isr_eligible,
                replica.is_in_isr,
                replica.is_caught_up,
                replica.last_caught_up_lag_ms,
                replica.last_fetch_lag_ms,
                replica.log_start_offset,
                replica.log_end_offset,
            )
            for replica in described.replicas
        ),
    )
