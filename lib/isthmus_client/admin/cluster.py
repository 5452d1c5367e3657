"""The cluster as a whole: brokers, features, log directories, and the producers of a partition."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from isthmus_model.endpoints import Endpoint, SecurityProtocol
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.metadata import TopicPartition, by_topic
from isthmus_client.requests_by_broker import by_leader


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A registered broker. Fenced brokers serve no requests; clusters before 4.0 do not list them."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    security: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def endpoint(self) -> Endpoint:
        """The address that clients connect to."""
        return Endpoint(self.host, self.port, self.security)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The members of the cluster."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerStatus, ...]


@dataclass(frozen=True, slots=True)
class Feature:
    """The finalized level (0: disabled) and the range that the broker supports."""

    name: str
    level: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """One replica's files; `future` while it moves into this directory."""

    partition: TopicPartition
    size: int
    lag: int
    future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """One directory of a broker; the sizes of its volume are -1 if the broker does not report them."""

    broker: int
    path: str
    error_code: ErrorCode
    total_bytes: int
    usable_bytes: int
    cordoned: bool
    replicas: tuple[ReplicaSize, ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer that a partition's leader remembers; `transaction_start` is -1 without an open transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start: int

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open in the partition."""
        return self.transaction_start >= 0


async def describe(client: Client) -> Cluster:
    """The cluster's id, controller and brokers."""
    request = entity(DescribeClusterRequest, include_cluster_authorized_operations=False, include_fenced_brokers=True)

    def verify(response: Any) -> None:
        check(response.error_code, "the cluster", response.error_message)

    response = await client.send_to_any(ApiKey.DESCRIBE_CLUSTER, request, verify)
    brokers = sorted(response.brokers, key=lambda broker: broker.broker_id)
    return Cluster(
        response.cluster_id,
        response.controller_id,
        tuple(BrokerStatus(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in brokers),
    )


async def features(client: Client) -> list[Feature]:
    """The features, by name."""
    reported = (await client.any_connection()).features
    levels = {f.name: f.max_version_level for f in reported.finalized_features}
    ranges = {f.name: (f.min_version, f.max_version) for f in reported.supported_features}
    return [Feature(name, levels.get(name, 0), *ranges.get(name, (0, 0))) for name in sorted({*levels, *ranges})]


async def log_dirs(client: Client, brokers: Collection[int] = ()) -> list[LogDir]:
    """The log directories of these brokers; of all by default."""
    view = await client.metadata_of(())
    request = entity(DescribeLogDirsRequest, topics=None)

    def verify(response: Any) -> None:
        check(response.error_code, "log directories")

    nodes = sorted(brokers or view.brokers)
    responses = await asyncio.gather(
        *(client.send_to_broker(b, ApiKey.DESCRIBE_LOG_DIRS, request, verify) for b in nodes)
    )
    return [
        _log_dir(broker, result)
        for broker, response in zip(nodes, responses, strict=True)
        for result in response.results
    ]


def _log_dir(broker: int, result: Any) -> LogDir:
    replicas = sorted(
        (
            ReplicaSize(TopicPartition(t.name, p.partition_index), p.partition_size, p.offset_lag, p.is_future_key)
            for t in result.topics
            for p in t.partitions
        ),
        key=lambda replica: replica.partition,
    )
    return LogDir(
        broker,
        result.log_dir,
        result.error_code,
        result.total_bytes,
        result.usable_bytes,
        result.is_cordoned,
        tuple(replicas),
    )


async def producers(
    client: Client, partitions: Collection[TopicPartition], broker: int | None = None
) -> dict[TopicPartition, list[ProducerState] | ClientError]:
    """The recent producers of each partition, as its leader knows them, or this broker's replica."""

    async def send(
        connection: Connection, share: dict[TopicPartition, None]
    ) -> dict[TopicPartition, list[ProducerState] | ClientError]:
        request = entity(
            DescribeProducersRequest,
            topics=tuple(
                entity(TopicRequest, name=topic, partition_indexes=tuple(indexes))
                for topic, indexes in by_topic(share).items()
            ),
        )
        response = await connection.request(ApiKey.DESCRIBE_PRODUCERS, request)
        return {
            (tp := TopicPartition(topic.name, p.partition_index)): _producers(tp, p)
            for topic in response.topics
            for p in topic.partitions
        }

    subjects = dict.fromkeys(partitions)
    if broker is None:
        return await by_leader(client, "describe producers", subjects, send)

    async def attempt() -> dict[TopicPartition, list[ProducerState] | ClientError]:
        await client.metadata_of(())
        return await send(await client.connection(broker), subjects)

    return await client.retry(f"describe producers of broker {broker}", attempt)


def _producers(partition: TopicPartition, result: Any) -> list[ProducerState] | Refused:
    if result.error_code is not ErrorCode.none:
        return Refused(result.error_code, f"partition {partition}", result.error_message)
    return [
        ProducerState(
            p.producer_id,
            p.producer_epoch,
            p.last_sequence,
            p.last_timestamp,
            p.coordinator_epoch,
            p.current_txn_start_offset,
        )
        for p in result.active_producers
    ]
