"""`python -m tests.exactly_once.consume_transform_produce NAME=VALUE...`: an application on librdkafka.

Each transaction reads a few records, writes what they become, and commits the offsets of the group with them; some are aborted at random.
It adds `ending TRANSACTION commit|abort` to the file `events` before it ends a transaction. It ends after SIGTERM.

After a fatal error a producer of librdkafka is of no more use, and destroying it may block; so the process restarts itself. It also does
so when an operation does not return: librdkafka may wait forever to send offsets to a group coordinator that has restarted, Apache
Kafka's too.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final, TextIO

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.exactly_once.workload import Workload, transformed, values_of
from tests.system.ledger import CLIENT_SETTINGS

_POLL_SECONDS: Final = 0.2
_ATTEMPT_SECONDS: Final = 10.0
STUCK_SECONDS: Final = 25.0
"""Longer than any fault of a test."""


class Application:
    """One consumer, and one producer at a time."""

    def __init__(self, workload: Workload, instance: int, random: Random, events: TextIO) -> None:
        self._workload = workload
        self._instance = instance
        self._random = random
        self._events = events
        self.returned_at = time.monotonic()
        self._stopping = False
        self._batch: list[Message] = []
        self._member: Any = None  # as it was when the batch was read
        self._name = f"{instance}-{secrets.token_hex(4)}"
        self._number = 0
        common = {**CLIENT_SETTINGS, "bootstrap.servers": workload.bootstrap}
        self._producer_settings = {
            **common,
            "transactional.id": workload.transactional_id(instance),
            "transaction.timeout.ms": workload.transaction_timeout_ms,
            "socket.timeout.ms": min(CLIENT_SETTINGS["socket.timeout.ms"], workload.transaction_timeout_ms),
            "linger.ms": 2,
        }
        self._consumer = Consumer(
            {
                **common,
                "group.id": workload.name,
                "group.protocol": "classic",
                "session.timeout.ms": workload.session_timeout_ms,
                "heartbeat.interval.ms": 500,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )

    def stop(self, *_: object) -> None:
        self._stopping = True

    def run(self) -> None:
        """Until it is stopped; raises when the producer is of no more use."""
        self._consumer.subscribe([self._workload.input], on_revoke=self._forget, on_lost=self._forget)
        producer = Producer(self._producer_settings)
        self._attempt(partial(producer.init_transactions, _ATTEMPT_SECONDS))
        self._work(producer)
        self._consumer.close()

    def _work(self, producer: Producer) -> None:
        while not self._stopping:
            self.returned_at = time.monotonic()
            if not self._read():
                continue
            try:
                self._transaction(producer)
            except KafkaException as refused:
                if not refused.args[0].txn_requires_abort():
                    raise
                _report(f"aborting: {refused}")
                self._abort(producer)
            self._batch.clear()

    def _forget(self, *_: object) -> None:
        """Another member reads these partitions from now on."""
        self._batch.clear()

    def _read(self) -> bool:
        """Whether there are records for a transaction."""
        deadline = time.monotonic() + _POLL_SECONDS
        while len(self._batch) < self._workload.transaction_size and (left := deadline - time.monotonic()) > 0:
            message = self._consumer.poll(left)
            if message is None:
                break
            if message.error() is not None:
                _report(f"reading: {message.error()}")
                continue
            if not self._batch:
                self._member = self._consumer.consumer_group_metadata()
            self._batch.append(message)
        return bool(self._batch)

    def _transaction(self, producer: Producer) -> None:
        self._number += 1
        name = f"{self._name}-{self._number}"
        producer.begin_transaction()
        for message in self._batch:
            self._produce(producer, message, name)
        offsets = {(m.topic(), m.partition()): (m.offset() or 0) + 1 for m in self._batch}
        positions = [
            TopicPartition(topic or "", partition or 0, next_) for (topic, partition), next_ in offsets.items()
        ]
        self._attempt(lambda: producer.send_offsets_to_transaction(positions, self._member, _ATTEMPT_SECONDS))
        if self._random.random() < self._workload.abort_probability:
            producer.flush(_ATTEMPT_SECONDS)
            self._record(f"ending {name} abort")
            self._abort(producer)
            return
        self._record(f"ending {name} commit")
        self._attempt(lambda: producer.commit_transaction(_ATTEMPT_SECONDS))

    def _produce(self, producer: Producer, message: Message, transaction: str) -> None:
        key, number = int(message.key() or b""), int(message.value() or b"")
        producer.produce(
            self._workload.output,
            f"{transformed(number)} {message.partition()}:{message.offset()} {transaction}".encode(),
            message.key(),
            partition=self._workload.output_partition(key),
        )

    def _abort(self, producer: Producer) -> None:
        """Abort, and read the same records again."""
        self._attempt(lambda: producer.abort_transaction(_ATTEMPT_SECONDS))
        self._rewind()

    def _rewind(self) -> None:
        """Continue at the committed offsets."""
        self._batch.clear()
        assigned = self._consumer.assignment()
        if not assigned:
            return
        committed: list[TopicPartition] = []
        self._attempt(lambda: committed.extend(self._consumer.committed(assigned, timeout=_ATTEMPT_SECONDS)))
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
            self._consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))

    def _record(self, event: str) -> None:
        print(event, file=self._events, flush=True)

    def _attempt(self, action: Callable[[], object]) -> None:
        """Again for as long as librdkafka says that it helps; the watchdog bounds it."""
        while True:
            try:
                action()
            except KafkaException as refused:
                error: KafkaError = refused.args[0]
                if not error.retriable():
                    raise
                _report(f"again: {error}")
            else:
                return


def _report(line: str) -> None:
    print(line, flush=True)


def main(arguments: list[str]) -> None:
    """Run until SIGTERM."""
    texts = values_of(arguments)
    with open(texts["events"], "a") as events:
        application = Application(Workload.parse(arguments), int(texts["instance"]), Random(texts["seed"]), events)
        signal.signal(signal.SIGTERM, application.stop)
        threading.Thread(target=_watch, args=(application,), daemon=True).start()
        try:
            application.run()
        except KafkaException as refused:
            _restart(str(refused))


def _watch(application: Application) -> None:
    while True:
        time.sleep(1)
        if time.monotonic() > application.returned_at + STUCK_SECONDS:
            _restart(f"nothing for {STUCK_SECONDS} s")


def _restart(why: str) -> None:
    """Replace the program of this process; the new one has the same transactional id."""
    _report(f"restarting: {why}")
    os.execv(sys.executable, [sys.executable, "-m", "tests.exactly_once.consume_transform_produce", *sys.argv[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
