"""Consumers: of assigned partitions, of a group, and a client that only commits and reads offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random

from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.batch_io import FetchLimits
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer, GroupProtocol
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition

from tests.histories import (
    UNKNOWN,
    CommitConfirmed,
    CommitRead,
    CommitRequested,
    Event,
    FinalRead,
    Polled,
    Positioned,
)

Record = Callable[[Event], None]
_POLL_SECONDS = 0.3


class Reader:
    """Reads assigned partitions from their starts, from leaders or from replicas of its rack, again and again after errors."""

    def __init__(
        self, name: str, client: Client, partitions: Sequence[TopicPartition], record: Record, limits: FetchLimits
    ) -> None:
        self.name = name
        self.delivered = 0
        self._client = client
        self._positions: dict[TopicPartition, int] = dict.fromkeys(partitions, At.EARLIEST)
        self._record = record
        self._limits = limits

    async def run(self) -> None:
        """Read until the process ends."""
        while True:
            for partition, position in self._positions.items():
                self._record(Positioned(self.name, partition, UNKNOWN if position < 0 else position))
            try:
                async with Consumer(self._client, reset=At.EARLIEST, limits=self._limits) as consumer:
                    await consumer.assign(self._positions)
                    while True:
                        await self._poll(consumer)
            except ClientError:
                await asyncio.sleep(0.1)

    async def _poll(self, consumer: Consumer) -> None:
        for partition, record in await consumer.poll(_POLL_SECONDS):
            assert record.value is not None
            self._record(Polled(self.name, partition, record.offset, record.value, self._limits.read_committed))
            self._positions[partition] = record.offset + 1
            self.delivered += 1


class Member:
    """A member of a group, which commits after each poll."""

    def __init__(
        self, name: str, client: Client, group: str, topics: Sequence[str], protocol: GroupProtocol, record: Record
    ) -> None:
        self.name = name
        self.delivered: dict[TopicPartition, set[bytes]] = {}
        self._client = client
        self._group = group
        self._topics = topics
        self._protocol = protocol
        self._record = record

    async def run(self) -> None:
        """Consume until the process ends."""
        while True:
            try:
                async with Consumer(
                    self._client,
                    group_id=self._group,
                    topics=self._topics,
                    protocol=self._protocol,
                    reset=At.EARLIEST,
                    limits=FetchLimits(wait_ms=200),
                ) as consumer:
                    while True:
                        await self._poll(consumer)
            except ClientError:
                await asyncio.sleep(0.1)

    async def _poll(self, consumer: Consumer) -> None:
        records = await consumer.poll(_POLL_SECONDS)
        for partition, record in records:
            assert record.value is not None
            self._record(Polled(self.name, partition, record.offset, record.value))
            self._record(Positioned(self.name, partition))  # after a rebalance another offset may follow
            self.delivered.setdefault(partition, set()).add(record.value)
        if records:
            await consumer.commit()


class Committer:
    """Commits rising offsets for a group without members, one attempt each, and reads them back."""

    def __init__(self, group: str, client: Client, partition: TopicPartition, record: Record, random: Random) -> None:
        self.group = group
        self.confirmed = 0
        self.is_finishing = False
        self._client = client
        self._partition = partition
        self._record = record
        self._random = random
        self._offset = 0

    async def run(self) -> None:
        """Commit until `is_finishing`."""
        while not self.is_finishing:
            with suppress(ClientError):
                await (self._commit() if self._random.random() < 0.7 else self.read(self._client))
            await asyncio.sleep(0.2 * self._random.random())

    async def _commit(self) -> None:
        self._offset += 1
        self._record(CommitRequested(self.group, self._partition, self._offset))
        outcome = await group_offsets.commit(self._client, self.group, {self._partition: Committed(self._offset)})
        if outcome[self._partition] is None:
            self._record(CommitConfirmed(self.group, self._partition, self._offset))
            self.confirmed += 1

    async def read(self, client: Client) -> None:
        """Read the offset back; raises ClientError."""
        offsets = await group_offsets.fetch(client, self.group, [self._partition])
        committed = offsets.get(self._partition)
        self._record(CommitRead(self.group, self._partition, UNKNOWN if committed is None else committed.offset))


async def read_everything(
    client: Client, partitions: Sequence[TopicPartition], *, read_committed: bool = False
) -> list[FinalRead]:
    """All records of partitions without producers; those of committed transactions, once all transactions have ended."""
    starts = await _listed(client, partitions, At.EARLIEST)
    ends = await _listed(client, partitions, At.LATEST)
    values: dict[TopicPartition, dict[int, bytes]] = {partition: {} for partition in partitions}
    async with Consumer(client, reset=None, limits=FetchLimits(wait_ms=100, read_committed=read_committed)) as consumer:
        await consumer.assign(starts)
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for partition, record in await consumer.poll(_POLL_SECONDS):
                assert record.value is not None
                values[partition][record.offset] = record.value
    return [
        FinalRead(each, starts[each], ends[each], values[each], read_committed=read_committed) for each in partitions
    ]


async def _listed(client: Client, partitions: Sequence[TopicPartition], at: At) -> Mapping[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for partition, listed in (await list_offsets(client, dict.fromkeys(partitions, at))).items():
        if isinstance(listed, ClientError):
            raise listed
        offsets[partition] = listed.offset
    return offsets
