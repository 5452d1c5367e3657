"""Writers of one region: transactions over all partitions, some aborted, beside records of an ordinary producer."""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_mirror.edge import destination_reads

from tests.exchange import ABORTED
from tests.system.ledger import CLIENT_SETTINGS, WAIT_SECONDS
from tests.system.quorums import query

T = TypeVar("T")
Reading = Callable[[Client, TopicPartition], Awaitable[T]]
RECORDS_EACH: Final = 3
"""Records of a transaction in each partition."""
_CALL_SECONDS: Final = 10.0


class RegionLoad:
    """Writes until it is stopped; values are `<region>:<transaction>:<number>`, and begin with `aborted` if they must never be seen."""

    def __init__(
        self, bootstrap: str, region: str, topic: str, partitions: int, *, pause_seconds: float = 0.01
    ) -> None:
        self.committed = 0
        self.problems: list[str] = []
        self._region = region
        self._topic = topic
        self._partitions = partitions
        self._pause = pause_seconds
        self._settings: dict[str, Any] = {**CLIENT_SETTINGS, "bootstrap.servers": bootstrap}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._transact, self._produce)]
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Stop, with every transaction complete."""
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in self._threads)
        assert not self.problems, self.problems[:3]

    def _transact(self) -> None:
        producer = self._transactional()
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                self._one_transaction(producer, number)
            except KafkaException as error:
                problem: KafkaError = error.args[0]
                if problem.txn_requires_abort():
                    with suppress(KafkaException):
                        _until_done(producer.abort_transaction)
                        continue
                producer = self._transactional()
            self._stop.wait(self._pause)

    def _transactional(self) -> Producer:
        while True:
            producer = Producer({**self._settings, "transactional.id": f"load-{self._region}", "linger.ms": 2})
            try:
                _until_done(producer.init_transactions)
            except KafkaException:
                continue
            return producer

    def _one_transaction(self, producer: Producer, number: int) -> None:
        aborts = number % 4 == 0
        producer.begin_transaction()
        for record in range(RECORDS_EACH):
            value = b"%s%s:%d:%d" % (ABORTED if aborts else b"", self._region.encode(), number, record)
            for partition in range(self._partitions):
                producer.produce(self._topic, value, partition=partition)
        if aborts:
            producer.flush(_CALL_SECONDS)
            _until_done(producer.abort_transaction)
        else:
            _until_done(producer.commit_transaction)
            self.committed += 1

    def _produce(self) -> None:
        producer = Producer({**self._settings, "enable.idempotence": True, "message.timeout.ms": WAIT_SECONDS * 1000})
        number = 0
        while not self._stop.is_set():
            number += 1
            for partition in range(self._partitions):
                producer.produce(self._topic, f"{self._region}:plain:{number}", partition=partition)
            producer.poll(0)
            self._stop.wait(10 * self._pause)
        if producer.flush(WAIT_SECONDS):
            self.problems.append("records of the ordinary producer are not acknowledged")


def _until_done(call: Callable[[float], object]) -> None:
    while True:
        try:
            call(_CALL_SECONDS)
        except KafkaException as error:
            if error.args[0].retriable():
                continue
            raise
        return


def of_each(bootstrap: str, partitions: list[TopicPartition], reading: Reading[T]) -> list[T]:
    """What is read of each partition now."""

    async def read(client: Client) -> list[T]:
        await client.metadata_of({partition.topic for partition in partitions})
        return [await reading(client, partition) for partition in partitions]

    return query(bootstrap, read)


def is_stable(bootstrap: str, partitions: list[TopicPartition]) -> bool:
    """Whether no transaction is open."""

    async def open_there(client: Client) -> bool:
        await client.metadata_of({partition.topic for partition in partitions})
        everything = await destination_reads.extents(client, partitions)
        stable = await destination_reads.extents(client, partitions, read_committed=True)
        return len(stable) == len(partitions) and stable == everything

    return query(bootstrap, open_there)
