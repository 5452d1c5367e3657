"""Observe the state of a cluster: its brokers and replicas, and their load from samples of Isthmus brokers or from file sizes."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from isthmus_client.admin import cluster, configs, topics
from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets
from isthmus_client.client import Client
from isthmus_client.clock import monotonic_ms, wall_ms
from isthmus_client.consumer import Consumer
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import Constraints, constraints_of
from isthmus_model.internal_topics import LOAD_TOPIC
from isthmus_model.load_samples import LoadSample
from isthmus_wire.apis import ApiKey

from isthmus_balancer.core.cluster import Broker, ClusterState, Partition

WINDOW_MS: Final = 60_000
"""Older samples are ignored."""
SIZES_APART_SECONDS: Final = 10.0
"""Without samples, inbound traffic is the growth of the files over this time."""
_READ_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Load:
    """The load of one partition: the rates in its leader's samples, and the size of its largest replica."""

    size: int = 0
    bytes_in: list[float] = field(default_factory=list)
    bytes_out: list[float] = field(default_factory=list)


Loads = dict[TopicPartition, _Load]


async def observe(client: Client, leaving: Collection[int] = ()) -> ClusterState:
    """Observe the current state of the cluster; raises ClientError."""
    described = await cluster.describe(client)
    serving = [broker.node_id for broker in described.brokers if not broker.fenced]
    listed = await topics.list_topics(client)
    directories = await cluster.log_dirs(client, serving)
    if await _writes_samples(client):
        loads, reporting = await _from_samples(client)
        unknown_loads = [
            f"the load of broker {broker} is unknown: no samples for {WINDOW_MS // 1000} s"
            for broker in serving
            if broker not in reporting
        ]
    else:
        loads, unknown_loads = await _from_sizes(client, serving, directories), []
    capacity: dict[int, int] = defaultdict(int)
    open_directories: dict[int, int] = defaultdict(int)
    for directory in directories:
        capacity[directory.broker] += max(directory.total_bytes, 0)
        open_directories[directory.broker] += not directory.cordoned
    brokers = {
        broker.node_id: Broker(
            broker.node_id,
            broker.rack or "",
            not broker.fenced and open_directories[broker.node_id] > 0,
            broker.node_id in leaving,
            capacity[broker.node_id],
        )
        for broker in described.brokers
    }
    sizes = {r.partition: r.size for d in directories for r in d.replicas if not r.future}
    partitions = await _partitions(client, listed, brokers, loads, sizes)
    return ClusterState(brokers, partitions, tuple(unknown_loads))


async def _writes_samples(client: Client) -> bool:
    connection = await client.any_connection()
    return connection.versions.supports(ApiKey.DESCRIBE_REPLICAS)


async def _partitions(
    client: Client,
    listed: Mapping[str, Topic],
    brokers: Mapping[int, Broker],
    loads: Loads,
    sizes: Mapping[TopicPartition, int],
) -> list[Partition]:
    """The partitions to balance; those with replicas on unregistered brokers are left out."""
    resources = [configs.Resource(ResourceType.TOPIC, name) for name in listed]
    descriptions = await configs.describe(client, resources)
    partitions = []
    for resource, values in descriptions.items():
        if isinstance(values, ClientError):
            raise values
        settings = {config.name: config.value for config in values if config.is_set}
        for index, partition in sorted(listed[resource.name].partitions.items()):
            if not set(partition.replicas) <= brokers.keys():
                continue
            constraints = constraints_of(settings)
            key = TopicPartition(resource.name, index)
            load = loads.get(key, _Load())
            observers = _observers(constraints, partition.replicas)
            partitions.append(
                Partition(
                    resource.name,
                    index,
                    partition.replicas,
                    partition.leader,
                    max(load.size, sizes.get(key, 0)),
                    _mean(load.bytes_in),
                    _mean(load.bytes_out),
                    observers,
                    constraints is not None,
                    constraints is not None and constraints.names_racks,
                    set(partition.replicas) - observers <= set(partition.in_sync),
                )
            )
    return partitions


def _observers(constraints: Constraints | None, replicas: Sequence[int]) -> frozenset[int]:
    """The observers that the constraints demand, at the end of the assignment."""
    count = 0 if constraints is None else constraints.observer_count
    return frozenset(replicas[len(replicas) - count :])


async def _from_samples(client: Client) -> tuple[Loads, set[int]]:
    """The load in the samples of the window, and the brokers that wrote them."""
    loads: Loads = defaultdict(_Load)
    reporting: set[int] = set()
    topic = (await client.refresh([LOAD_TOPIC])).topics.get(LOAD_TOPIC)
    if topic is None:
        return loads, reporting
    partitions = [TopicPartition(LOAD_TOPIC, index) for index in topic.partitions]
    since = wall_ms() - WINDOW_MS
    ends = {
        p: at.offset
        for p, at in (await list_offsets(client, dict.fromkeys(partitions, At.LATEST))).items()
        if isinstance(at, ListedOffset)
    }
    starts = await list_offsets(client, dict.fromkeys(ends, since))
    offsets = {p: at.offset for p, at in starts.items() if isinstance(at, ListedOffset) and 0 <= at.offset < ends[p]}
    async with Consumer(client, reset=None) as consumer, asyncio.timeout(_READ_SECONDS):
        await consumer.assign(offsets)
        while any(consumer.position(partition) < ends[partition] for partition in offsets):
            for record in await consumer.poll(1.0):
                _count(record.record.value, loads, reporting)
    return loads, reporting


def _count(value: bytes | None, loads: Loads, reporting: set[int]) -> None:
    try:
        sample = LoadSample.parse(value or b"")
    except ValueError:
        return  # a record of another application
    reporting.add(sample.broker)
    for replica in sample.replicas:
        load = loads[TopicPartition(replica.topic, replica.partition)]
        load.size = max(load.size, replica.size)
        if replica.is_leader:
            load.bytes_in.append(replica.bytes_in)
            load.bytes_out.append(replica.bytes_out)


async def _from_sizes(client: Client, serving: Collection[int], before: Collection[cluster.LogDir]) -> Loads:
    """Inbound traffic from the growth of the largest replica; traffic to consumers is unknown."""
    loads: Loads = defaultdict(_Load)
    began = monotonic_ms()
    await asyncio.sleep(SIZES_APART_SECONDS)
    after = await cluster.log_dirs(client, serving)
    seconds = (monotonic_ms() - began) / 1000
    first, last = _largest(before), _largest(after)
    for partition, size in last.items():
        load = loads[partition]
        load.size = size
        load.bytes_in.append(max(size - first.get(partition, size), 0) / seconds)
    return loads


def _largest(directories: Collection[cluster.LogDir]) -> dict[TopicPartition, int]:
    sizes: dict[TopicPartition, int] = defaultdict(int)
    for directory in directories:
        for replica in directory.replicas:
            if not replica.future:
                sizes[replica.partition] = max(sizes[replica.partition], replica.size)
    return sizes


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values) if values else 0.0
