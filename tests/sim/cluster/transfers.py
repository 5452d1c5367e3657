"""Transactions: transfers between the partitions of a topic, and a copy of another topic with its group's offsets.

Each transfer writes to several partitions, so that one that is seen in part does not conserve the sum. The copy reads a partition, writes
what it read, and commits the offset of its group, all in one transaction. Both abandon a producer now and then, and continue with a new one
of the same transactional id; the abandoned one still tries to commit.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Final

from isthmus_client.admin import group_offsets
from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.admin.list_offsets import At
from isthmus_client.batch_io import FetchLimits
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer
from isthmus_client.errors import (
    ClientError,
    MustAbort,
    OutcomeUnknown,
    ProducerUnusable,
)
from isthmus_client.metadata import TopicPartition
from isthmus_client.transactional_producer import TransactionalProducer

from tests.histories import Ended, Ending, Event, FinalRead, Sent

ACCOUNTS: Final = (TopicPartition("transfers", 0), TopicPartition("transfers", 1))
COPY: Final = TopicPartition("copy", 0)
COPIERS: Final = "copiers"
TRANSACTIONAL: Final = (*ACCOUNTS, COPY)
TIMEOUT_MS: Final = 2_000
MARK: Final = b"@"
"""Between the value that was copied and the transaction."""
_ABORTS: Final = 0.15
_ABANDONS: Final = 0.1
_POLL_SECONDS: Final = 0.3


class Application(ABC):
    """Makes transactions until `is_finishing`."""

    def __init__(
        self, name: str, client: Client, record: Callable[[Event], None], random: Random, think_max: float
    ) -> None:
        self.acknowledged = 0
        """Committed transactions."""
        self.is_finishing = False
        self.is_done = False
        self._name = name
        self._client = client
        self._record = record
        self._random = random
        self._think_max = think_max
        self._number = 0
        self._zombies: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """A producer that is of no more use is replaced."""
        while not self.is_finishing:
            producer = TransactionalProducer(self._client, self._name, timeout_ms=TIMEOUT_MS, linger_seconds=0)
            try:
                await producer.init_transactions()
                while not self.is_finishing:
                    await asyncio.sleep(self._think_max * self._random.random())
                    if await self._transact(producer):
                        break
            except ClientError:
                await asyncio.sleep(0.05)
        await asyncio.gather(*self._zombies)
        self.is_done = True

    async def _transact(self, producer: TransactionalProducer) -> bool:
        """One transaction; returns whether its producer was abandoned."""
        self._number += 1
        transaction = f"{self._name} {self._number}"
        await producer.begin()
        try:
            await self._write(producer, transaction)
        except ProducerUnusable:
            raise
        except ClientError:
            await self._abort(producer, transaction)
            return False
        choice = self._random.random()
        if choice < _ABANDONS:
            self._zombies.append(asyncio.create_task(self._haunt(producer, transaction)))
            return True
        if choice < _ABANDONS + _ABORTS:
            await self._abort(producer, transaction)
        else:
            await self._commit(producer, transaction)
        return False

    @abstractmethod
    async def _write(self, producer: TransactionalProducer, transaction: str) -> None:
        """Send what belongs to the transaction."""

    async def _commit(self, producer: TransactionalProducer, transaction: str) -> None:
        self._record(Ending(transaction, commits=True))
        try:
            await _until_known(producer.commit)
        except MustAbort:
            await self._abort(producer, transaction)
            return
        self._record(Ended(transaction, commits=True))
        self.acknowledged += 1

    async def _abort(self, producer: TransactionalProducer, transaction: str) -> None:
        self._record(Ending(transaction, commits=False))
        await _until_known(producer.abort)
        self._record(Ended(transaction, commits=False))

    async def _haunt(self, producer: TransactionalProducer, transaction: str) -> None:
        """What an abandoned producer does, which does not know that there is another one."""
        await asyncio.sleep(self._random.random())
        with suppress(ClientError):
            await self._commit(producer, transaction)

    def _send(self, transaction: str, partition: TopicPartition, value: bytes) -> None:
        self._record(Sent(self._name, partition, value, transaction=transaction))


async def _until_known(end: Callable[[], Awaitable[None]]) -> None:
    """Repeat a call until its outcome is known; raises MustAbort or ProducerUnusable."""
    while True:
        try:
            await end()
        except OutcomeUnknown:
            await asyncio.sleep(0.05)
        else:
            return


class Transfers(Application):
    """Moves amounts between the accounts: what one loses, the other gets."""

    async def _write(self, producer: TransactionalProducer, transaction: str) -> None:
        for number in range(self._random.randint(1, 3)):
            amount = self._random.randint(1, 99)
            for partition, signed in zip(ACCOUNTS, (-amount, amount), strict=True):
                value = f"{transaction}:{number}:{signed}".encode()
                self._send(transaction, partition, value)
                await producer.send(partition.topic, value, partition=partition.partition)


class Copier(Application):
    """Copies a partition, from the group's offset on."""

    def __init__(
        self,
        name: str,
        client: Client,
        record: Callable[[Event], None],
        random: Random,
        think_max: float,
        source: TopicPartition,
    ) -> None:
        super().__init__(name, client, record, random, think_max)
        self._source = source

    async def _write(self, producer: TransactionalProducer, transaction: str) -> None:
        """Read the offset each time: an aborted transaction leaves the offset where it was."""
        committed = await group_offsets.fetch(self._client, COPIERS, [self._source], require_stable=True)
        start = committed[self._source].offset if self._source in committed else At.EARLIEST
        async with Consumer(self._client, reset=At.EARLIEST, limits=FetchLimits(wait_ms=100)) as consumer:
            await consumer.assign({self._source: start})
            records = await consumer.poll(_POLL_SECONDS, most=self._random.randint(1, 20))
            for _, record in records:
                assert record.value is not None
                value = record.value + MARK + transaction.encode()
                self._send(transaction, COPY, value)
                await producer.send(COPY.topic, value, partition=COPY.partition)
            if records:
                offsets = {self._source: Committed(records[-1].record.offset + 1)}
                await producer.send_offsets(offsets, GroupMetadata(COPIERS))


def copy_problems(source: FinalRead, copy: FinalRead, offset: int, trimmed: int) -> Iterator[str]:
    """The copy has every record of the source below the group's offset, once and in order. Those that were deleted may be missing."""
    values = {value: at for at, value in source.records.items()}
    copied = [value.partition(MARK)[0] for _, value in sorted(copy.records.items())]
    offsets = [values[value] for value in copied if value in values]
    if len(set(copied)) < len(copied):
        twice = sorted(value for value, count in Counter(copied).items() if count > 1)
        yield f"copied-twice: {twice[:3]} are in {COPY} more than once"
    if offsets != sorted(offsets):
        yield f"copy-out-of-order: {COPY} has the records of {source.partition} as {offsets}"
    missing = [at for value, at in values.items() if trimmed <= at < offset and value not in copied]
    if missing:
        yield f"copy-skipped: {COPY} has no copy of {source.partition} at {missing[:3]}, and the group's offset is {offset}"
