"""The writers of a region: transactions, and records without, with values that name their region."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from isthmus_client.client import Client
from isthmus_client.errors import ClientError, TransactionError
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_client.transactional_producer import TransactionalProducer

from tests.exchange import ABORTED
from tests.sim.cluster.process import current

PARTITIONS: Final = [TopicPartition("orders", index) for index in range(2)]
RECORDS_EACH: Final = 2
"""Records of a transaction in each partition."""
_PAUSE_SECONDS: Final = 0.2


class Transactor:
    """Writes transactions over both partitions, one after another, and aborts some."""

    def __init__(self, region: str, client: Client, random: Random, note: Callable[[str], None]) -> None:
        """`note` is called for the trace."""
        self.is_finishing = False
        self.is_done = False
        self._note = note
        self._region = region
        self._client = client
        self._random = random

    async def run(self) -> None:
        number = 0
        while not self.is_finishing:
            producer = TransactionalProducer(self._client, f"writer-{self._region}", timeout_ms=5_000, linger_seconds=0)
            try:
                await producer.init_transactions()
                while not self.is_finishing:
                    number += 1
                    await self._transact(producer, number)
                    await asyncio.sleep(_PAUSE_SECONDS * self._random.random())
            except ClientError:
                await asyncio.sleep(_PAUSE_SECONDS)
        self.is_done = True

    async def _transact(self, producer: TransactionalProducer, number: int) -> None:
        aborts = self._random.random() < 0.25
        await producer.begin()
        try:
            for record in range(RECORDS_EACH):
                value = b"%s%s:%d:%d" % (ABORTED if aborts else b"", self._region.encode(), number, record)
                for partition in PARTITIONS:
                    await producer.send(partition.topic, value, partition=partition.partition)
                await producer.flush()
                await asyncio.sleep(_PAUSE_SECONDS / 4 * self._random.random())
            if aborts:
                await producer.abort()
            else:
                await producer.commit()
            self._note(f"transaction {number} of {self._region} {'aborts' if aborts else 'commits'}")
        except TransactionError:
            await producer.abort()


class PlainWriter:
    """Writes records without transactions; a record that fails is not written again."""

    def __init__(self, region: str, client: Client, random: Random) -> None:
        self.is_finishing = False
        self.is_done = False
        self._region = region
        self._client = client
        self._random = random

    async def run(self) -> None:
        number = 0
        producer = Producer(self._client, linger_seconds=0)
        while not self.is_finishing:
            number += 1
            for partition in PARTITIONS:
                value = b"%s:plain:%d" % (self._region.encode(), number)
                try:
                    delivery = await producer.send(
                        partition.topic, value, partition=partition.partition, timestamp=current().wall_ms()
                    )
                    await delivery.place()
                except ClientError:
                    continue
            await asyncio.sleep(4 * _PAUSE_SECONDS * self._random.random())
        self.is_done = True
