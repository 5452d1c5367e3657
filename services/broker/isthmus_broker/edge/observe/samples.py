"""Samples that a broker writes to its own cluster: the load of its replicas, and the lag of all replicas that follow it."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_model.clocks import MonotonicMs, Now
from isthmus_model.endpoints import Endpoint
from isthmus_model.internal_topics import INTERNAL_TOPICS, ISTHMUS_PREFIX, LAG_TOPIC, LOAD_TOPIC
from isthmus_model.lag_samples import CopyKind, LagSample
from isthmus_model.load_samples import ReplicaLoad, load_samples
from isthmus_model.regions import region_of
from isthmus_service.samples import SampleTopic
from isthmus_wire.extensions.replicas import DescribedReplica

from isthmus_broker.core.replica.status import replica_statuses
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services

logger = logging.getLogger(__name__)

"""Topics of samples are not sampled: they would keep themselves growing."""
_LOAD_KEPT_MS: Final = 24 * 3600 * 1000
_Counted = tuple[int, int, int]


class Sampler:
    """Writes every `interval_ms` until it is stopped, as an ordinary client of its own broker."""

    def __init__(self, services: Services, address: Endpoint, interval_ms: int) -> None:
        self._services = services
        self._address = address
        self._interval = interval_ms / 1000
        self._before: dict[tuple[str, int], _Counted] = {}
        self._before_ms = services.clocks.monotonic()
        self._behind_since: dict[tuple[str, int, int], int] = {}
        """When each replica was first seen to lag: a new leader does not know when they were last caught up."""
        self._behind_next: dict[tuple[str, int, int], int] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; the first samples are written after one interval."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                async with Client([self._address], client_id="isthmus-sampler") as client:
                    await self._write_with(client)
            except ClientError as error:
                logger.warning("cannot write samples: %s", error)
            except Exception:
                # A defect in the samples must not stop the node, nor end the samples for good.
                logger.exception("cannot write samples; retrying")
            await asyncio.sleep(self._interval)

    async def _write_with(self, client: Client) -> None:
        load = SampleTopic(client, LOAD_TOPIC, retention_ms=_LOAD_KEPT_MS)
        lag = SampleTopic(client, LAG_TOPIC)
        while True:
            await asyncio.sleep(self._interval)
            now = self._services.clocks.now()
            config = self._services.config
            replicas = list(self._loads(now.monotonic))
            rack = config.settings.broker_rack or ""
            await load.write([(s.key(), s.value()) for s in load_samples(config.node_id, rack, now.wall, replicas)])
            await lag.write([(s.key(), s.value()) for s in self._lags(self._services.clocks.now())])

    def _partitions(self) -> Iterator[Partition]:
        for partition in self._services.replicas.partitions():
            if partition.log is not None and not partition.topic.startswith(ISTHMUS_PREFIX):
                yield partition

    def _loads(self, now: MonotonicMs) -> Iterator[ReplicaLoad]:
        seconds = max(now - self._before_ms, 1) / 1000
        counted: dict[tuple[str, int], _Counted] = {}
        for partition in self._partitions():
            assert partition.log is not None
            key = (partition.topic, partition.index)
            counted[key] = (partition.bytes_in, partition.bytes_out, partition.replicated_out)
            before = self._before.get(key, (0, 0, 0))
            rates = [max(new - old, 0) / seconds for new, old in zip(counted[key], before, strict=True)]
            yield ReplicaLoad(
                topic=partition.topic,
                partition=partition.index,
                is_leader=partition.is_led_here,
                size=partition.log.size,
                bytes_in=rates[0],
                bytes_out=rates[1],
                replicated_out=rates[2],
            )
        self._before, self._before_ms = counted, now

    def _lags(self, now: Now) -> Iterator[LagSample]:
        """Lag of every other replica of the partitions that this broker leads."""
        services = self._services
        racks = {broker_id: broker.rack for broker_id, broker in services.image.brokers.items()}
        own_region = region_of(services.config.settings.broker_rack)
        for partition in self._partitions():
            if partition.leader is None or partition.log is None or partition.topic in INTERNAL_TOPICS:
                continue
            for replica in replica_statuses(partition.leader, partition.log, now.monotonic):
                if replica.is_leader:
                    continue
                yield LagSample(
                    kind=CopyKind.OBSERVER if replica.is_observer else CopyKind.FOLLOWER,
                    link="",
                    source_cluster=services.cluster_id,
                    target_cluster=services.cluster_id,
                    source_region=own_region,
                    target_region=region_of(racks.get(replica.broker_id)),
                    source_topic=partition.topic,
                    topic=partition.topic,
                    partition=partition.index,
                    target_broker=replica.broker_id,
                    source_end=partition.log.end_offset,
                    target_end=max(replica.log_end_offset, 0),
                    lag_ms=self._lag_ms(partition, partition.log.end_offset, replica, now.monotonic),
                    at_ms=now.wall,
                )
        self._behind_since, self._behind_next = self._behind_next, {}

    def _lag_ms(self, partition: Partition, end: int, replica: DescribedReplica, now: MonotonicMs) -> int:
        if replica.log_end_offset >= end:
            return 0
        key = (partition.topic, partition.index, replica.broker_id)
        since = self._behind_next[key] = self._behind_since.get(key, now)
        return replica.last_caught_up_lag_ms if replica.last_caught_up_lag_ms >= 0 else now - since
