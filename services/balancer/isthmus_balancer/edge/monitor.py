"""What the planner is told of a cluster: brokers, replicas and their load, from samples of Isthmus brokers or from the sizes of files."""

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
from isthmus_model.constraints import Constraints, constraints_of
from isthmus_model.internal_topics import LOAD_TOPIC
from isthmus_model.load_samples import LoadSample
from isthmus_wire.apis import ApiKey

from isthmus_balancer.core.cluster import Broker, ClusterState, Partition

WINDOW_MS: Final = 60_000
"""Samples older than this are not looked at."""
SIZES_APART_SECONDS: Final = 10.0
"""Where there are no samples, what came in is what the files grew by in this time."""
_READ_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Load:
    """Of one partition: the leader's rates, averaged over its samples, and the largest replica."""

    size: int = 0
    bytes_in: list[float] = field(default_factory=list)
    bytes_out: list[float] = field(default_factory=list)


Loads = dict[TopicPartition, _Load]


async def observe(client: Client, leaving: Collection[int] = ()) -> ClusterState:
    """Raises ClientError."""
    described = await cluster.describe(client)
    serving = [broker.node_id for broker in described.brokers if not broker.fenced]
    listed = await topics.list_topics(client)
    directories = await cluster.log_dirs(client, serving)
    if await _writes_samples(client):
        loads, told = await _from_samples(client)
        lacking = [
            f"broker {broker} has written no sample for {WINDOW_MS // 1000} s"
            for broker in serving
            if broker not in told
        ]
    else:
        loads, lacking = await _from_sizes(client, serving, directories), []
    capacity: dict[int, int] = defaultdict(int)
    open_directories: dict[int, int] = defaultdict(int)
    for directory in directories:
        capacity[directory.broker] += max(directory.total_bytes, 0)
        open_directories[directory.broker] += not directory.cordoned
    brokers = {
        known.node_id: Broker(
            known.node_id,
            known.rack or "",
            not known.fenced and open_directories[known.node_id] > 0,
            known.node_id in leaving,
            capacity[known.node_id],
        )
        for known in described.brokers
    }
    sizes = {r.partition: r.size for d in directories for r in d.replicas if not r.future}
    partitions = await _partitions(client, listed, brokers, loads, sizes)
    return ClusterState(brokers, partitions, tuple(lacking))


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
    """Partitions with replicas on brokers that nobody knows any more are left alone."""
    resources = [configs.Resource(configs.ResourceType.TOPIC, name) for name in listed]
    told = await configs.describe(client, resources)
    found = []
    for resource, values in told.items():
        if isinstance(values, ClientError):
            raise values
        settings = {config.name: config.value for config in values if config.is_set}
        for index, known in sorted(listed[resource.name].partitions.items()):
            if not set(known.replicas) <= brokers.keys():
                continue
            constraints = constraints_of(settings)
            key = TopicPartition(resource.name, index)
            load = loads.get(key, _Load())
            observers = _observers(constraints, known.replicas)
            found.append(
                Partition(
                    resource.name,
                    index,
                    known.replicas,
                    known.leader,
                    max(load.size, sizes.get(key, 0)),
                    _mean(load.bytes_in),
                    _mean(load.bytes_out),
                    observers,
                    constraints is not None,
                    constraints is not None and constraints.names_racks,
                    set(known.replicas) - observers <= set(known.in_sync),
                )
            )
    return found


def _observers(constraints: Constraints | None, replicas: Sequence[int]) -> frozenset[int]:
    """They stand at the end of an assignment, as many as the constraints demand."""
    count = 0 if constraints is None else constraints.observer_count
    return frozenset(replicas[len(replicas) - count :])


async def _from_samples(client: Client) -> tuple[Loads, set[int]]:
    """What was written within the window; and by which brokers."""
    loads: Loads = defaultdict(_Load)
    told: set[int] = set()
    known = (await client.refresh([LOAD_TOPIC])).topics.get(LOAD_TOPIC)
    if known is None:
        return loads, told
    partitions = [TopicPartition(LOAD_TOPIC, index) for index in known.partitions]
    since = wall_ms() - WINDOW_MS
    ends = {
        p: at.offset
        for p, at in (await list_offsets(client, dict.fromkeys(partitions, At.LATEST))).items()
        if isinstance(at, ListedOffset)
    }
    starts = await list_offsets(client, dict.fromkeys(ends, since))
    wanted = {p: at.offset for p, at in starts.items() if isinstance(at, ListedOffset) and 0 <= at.offset < ends[p]}
    async with Consumer(client, reset=None) as consumer, asyncio.timeout(_READ_SECONDS):
        await consumer.assign(wanted)
        while any(consumer.position(partition) < ends[partition] for partition in wanted):
            for record in await consumer.poll(1.0):
                _count(record.record.value, loads, told)
    return loads, told


def _count(value: bytes | None, loads: Loads, told: set[int]) -> None:
    try:
        sample = LoadSample.parse(value or b"")
    except ValueError:
        return  # somebody else's record
    told.add(sample.broker)
    for replica in sample.replicas:
        load = loads[TopicPartition(replica.topic, replica.partition)]
        load.size = max(load.size, replica.size)
        if replica.is_leader:
            load.bytes_in.append(replica.bytes_in)
            load.bytes_out.append(replica.bytes_out)


async def _from_sizes(client: Client, serving: Collection[int], before: Collection[cluster.LogDir]) -> Loads:
    """What the largest replica grew by; nobody tells what consumers read."""
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
