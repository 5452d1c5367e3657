"""A producer that measures how long records are not acknowledged."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Self

from confluent_kafka import KafkaError, Message, Producer

GIVE_UP_SECONDS: Final = 180.0
"""More than twice the timeout of librdkafka's defaults."""
TWO_SECONDS: Final[dict[str, Any]] = {"socket.timeout.ms": 1000, "topic.metadata.refresh.interval.ms": 1000}
"""A producer that times out after two seconds at most as a rule: librdkafka compares the time with its timeouts once a second. One that is
connected to the failed broker alone requests metadata elsewhere at its next refresh."""


class Stream:
    """A producer of librdkafka that sends a record every few milliseconds until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        """`settings` override librdkafka's defaults."""
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 2}
            | settings
        )
        self._ended = threading.Event()
        self._acknowledged = threading.Condition()
        self._newest = 0.0  # when the newest acknowledged record was sent
        self._acknowledged_at = 0.0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(GIVE_UP_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(self._topic, b"x" * 100, on_delivery=self._delivered(time.perf_counter()))
            self._producer.poll(0.005)

    def _delivered(self, sent: float) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                with self._acknowledged:
                    self._newest, self._acknowledged_at = max(self._newest, sent), time.perf_counter()
                    self._acknowledged.notify_all()

        return delivered

    def seconds_until_next(self, fault: Callable[[], object] = lambda: None) -> float:
        """The time from a fault to the acknowledgement of the first record sent after it."""
        began = time.perf_counter()
        fault()
        struck = time.perf_counter()
        with self._acknowledged:
            if not self._acknowledged.wait_for(lambda: self._newest > struck, GIVE_UP_SECONDS):
                raise RuntimeError("nothing was acknowledged")
            return self._acknowledged_at - began
