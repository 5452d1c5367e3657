"""The input of a workload, written for as long as it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tests.exactly_once.workload import Workload
from tests.system.ledger import CLIENT_SETTINGS, WAIT_SECONDS, wait_until

PAUSE_SECONDS: Final = 0.02
AHEAD: Final = 1_000
"""Records, at most."""


class Feeder:
    """Produces the next number of every key, again and again, until it is stopped."""

    def __init__(self, workload: Workload, progress: Callable[[], int], pause_seconds: float = PAUSE_SECONDS) -> None:
        """It pauses after each round over the keys, and while it is far ahead of the `progress` of the applications."""
        self.acknowledged = 0
        self.failures: list[str] = []
        self._workload = workload
        self._progress = progress
        self._pause_seconds = pause_seconds
        self._producer = Producer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": workload.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": WAIT_SECONDS * 1000,
                "retry.backoff.ms": 20,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._pause_seconds):
            if number * self._workload.keys < self._progress() + AHEAD:
                self._feed(number)
                number += 1
            self._producer.poll(0)

    def _feed(self, number: int) -> None:
        workload = self._workload
        for key in range(workload.keys):
            self._producer.produce(
                workload.input,
                str(number).encode(),
                str(key).encode(),
                partition=workload.input_partition(key),
                on_delivery=self._delivered,
            )

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failures.append(str(error))

    def finish(self) -> None:
        """Stop, and wait until everything sent is acknowledged."""
        self.stop()
        assert self._producer.flush(WAIT_SECONDS) == 0
        assert not self.failures, self.failures[:3]

    def wait_for(self, count: int) -> None:
        """Until that many are acknowledged."""
        wait_until(lambda: self.acknowledged >= count or bool(self.failures), f"{count} records of input")
        assert not self.failures, self.failures[:3]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
