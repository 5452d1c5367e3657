"""One interface to the transactions of several clients, each unmodified."""

from __future__ import annotations

import asyncio
import atexit
import os
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.conformance.clients import kafka_python
from tests.conformance.clients.waiting import DEADLINE_SECONDS, wait_until
from tests.franz_go import build
from tests.java import class_path, compile_java
from tests.kafka import SHORT_LIVED_JVM

END: Final = b"end"
"""The last value of every topic that is read."""


class Refused(Exception):
    """An operation failed; fenced means that another producer has taken over the transactional id."""

    def __init__(self, message: str, *, fenced: bool) -> None:
        super().__init__(message)
        self.fenced = fenced


class Client(ABC):
    """A producer with a transactional id, and a consumer of the same library. It takes the id over, and is ready for a transaction."""

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, value: bytes) -> None:
        """Append to partition 0, in the transaction; returns when it is acknowledged."""

    @abstractmethod
    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """The group's offset of partition 0."""

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def read(self, topic: str, *, committed: bool) -> list[bytes]:
        """Partition 0 from its start to END."""

    @abstractmethod
    def close(self) -> None: ...


class ConfluentKafka(Client):
    """librdkafka."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": timeout_ms,
            "log_level": 2,
        }
        self._producer = Producer(settings)
        self._call(self._producer.init_transactions)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes) -> None:
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        self._call(lambda: self._producer.produce(topic, value, partition=0, on_delivery=delivered))
        assert self._producer.flush(DEADLINE_SECONDS) == 0
        if failures:
            raise _of_librdkafka(failures[0])

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group, "log_level": 2})
        with closing(consumer):
            member = consumer.consumer_group_metadata()
            positions = [TopicPartition(topic, 0, offset)]
            self._call(lambda: self._producer.send_offsets_to_transaction(positions, member, DEADLINE_SECONDS))

    def commit(self) -> None:
        self._call(lambda: self._producer.commit_transaction(DEADLINE_SECONDS))

    def abort(self) -> None:
        self._call(lambda: self._producer.abort_transaction(DEADLINE_SECONDS))

    def read(self, topic: str, *, committed: bool) -> list[bytes]:
        values: list[bytes] = []
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reader", "auto.offset.reset": "error"}
        with closing(Consumer({**settings, "isolation.level": _isolation(committed)})) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])

            def ended() -> bool:
                for message in consumer.consume(100, 0.2):
                    assert message.error() is None, message.error()
                    values.append(message.value() or b"")
                return END in values

            wait_until(ended, f"the end of {topic}")
        return values

    def close(self) -> None:
        """Nothing: librdkafka ends with its object."""

    @staticmethod
    def _call(action: Callable[[], object]) -> None:
        try:
            action()
        except KafkaException as refused:
            raise _of_librdkafka(refused.args[0]) from refused


def _of_librdkafka(error: KafkaError) -> Refused:
    return Refused(str(error), fenced=error.code() == KafkaError._FENCED)


class AioKafka(Client):
    """aiokafka, whose event loop runs during each call."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=0))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._run(self._producer.send_offsets_to_transaction({AioTopicPartition(topic, 0): offset}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def read(self, topic: str, *, committed: bool) -> list[bytes]:
        async def consume() -> list[bytes]:
            values: list[bytes] = []
            consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, isolation_level=_isolation(committed))
            async with consumer:
                partition = AioTopicPartition(topic, 0)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                while END not in values:
                    values.append((await consumer.getone()).value or b"")
            return values

        return list(self._run(consume()))

    def close(self) -> None:
        try:
            self._run(self._producer.stop())
        except Refused:
            pass  # it was fenced
        finally:
            self._loop.close()

    def _run(self, action: Any) -> Any:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(action, DEADLINE_SECONDS))
        except AioKafkaError as refused:
            raise Refused(repr(refused), fenced=isinstance(refused, ProducerFenced)) from refused


class KafkaPython(Client):
    """kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._producer = kafka_python.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._call(self._producer.init_transactions)

    def begin(self) -> None:
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes) -> None:
        self._call(lambda: self._producer.send(topic, value, partition=0).get(DEADLINE_SECONDS))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {kafka_python.TopicPartition(topic, 0): kafka_python.OffsetAndMetadata(offset, "", -1)}
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    def read(self, topic: str, *, committed: bool) -> list[bytes]:
        values: list[bytes] = []
        consumer = kafka_python.KafkaConsumer(bootstrap_servers=self._bootstrap, isolation_level=_isolation(committed))
        with closing(consumer):
            partition = kafka_python.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)

            def ended() -> bool:
                for records in consumer.poll(200).values():
                    values.extend(record.value for record in records)
                return END in values

            wait_until(ended, f"the end of {topic}")
        return values

    def close(self) -> None:
        self._producer.close(timeout=DEADLINE_SECONDS)

    @staticmethod
    def _call(action: Callable[[], object]) -> None:
        try:
            action()
        except kafka_python.KafkaError as refused:
            fenced = isinstance(refused, kafka_python.ProducerFencedError | kafka_python.InvalidProducerEpochError)
            raise Refused(repr(refused), fenced=fenced) from refused


class Program(Client):
    """A client in another language, in a process that reads commands and responds with `ok VALUE...`, `fenced WHY` or `refused WHY`."""

    def __init__(self, command: Sequence[str | Path], bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._process = subprocess.Popen(
            [*command, bootstrap, transactional_id, str(timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")},
        )
        self._response()

    def begin(self) -> None:
        self._request("begin")

    def send(self, topic: str, value: bytes) -> None:
        self._request("send", topic, value.decode())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._request("offset", group, topic, str(offset))

    def commit(self) -> None:
        self._request("commit")

    def abort(self) -> None:
        self._request("abort")

    def read(self, topic: str, *, committed: bool) -> list[bytes]:
        return [value.encode() for value in self._request("read", topic, _isolation(committed), END.decode())]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(DEADLINE_SECONDS)
        finally:
            self._process.kill()
            self._process.stdout.close()

    def _request(self, *words: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._response()

    def _response(self) -> list[str]:
        """The test's own timeout bounds the wait."""
        assert self._process.stdout is not None
        kind, *rest = self._process.stdout.readline().split()
        if kind != "ok":
            raise Refused(" ".join(rest), fenced=kind == "fenced")
        return rest


class Java(Program):
    """Apache Kafka's own client."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        command = ["java", *SHORT_LIVED_JVM, "-cp", _java_classes(), "TransactionalClient"]
        super().__init__(command, bootstrap, transactional_id, timeout_ms)


@cache
def _java_classes() -> str:
    """The program, compiled once for all tests of a process."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    compile_java(Path(__file__).with_name("TransactionalClient.java"), Path(folder.name))
    return class_path(Path(folder.name))


class FranzGo(Program):
    """franz-go, which commits offsets in transactions only from its own group sessions."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        super().__init__([build()], bootstrap, transactional_id, timeout_ms)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        raise NotImplementedError

    def transfer(self, group: str, source: str, target: str, *, commits: bool) -> None:
        """Copy a topic from the group's offset to END, in one transaction with the offset."""
        self._request("transfer", group, source, target, END.decode(), "commit" if commits else "abort")


def _isolation(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"
