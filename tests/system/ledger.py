"""A load that remembers what was acknowledged, and the check that the log holds exactly that."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PARTITIONS = 4
WAIT_SECONDS = 120


class Ledger:
    """Produces numbered records to every partition, idempotent and with acks=all, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": WAIT_SECONDS * 1000,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 20,
                "log_level": 2,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def total(self) -> int:
        """Records acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, count: int) -> None:
        """Until that many are acknowledged."""
        wait_until(lambda: self.total() >= count or bool(self.failures), f"{count} acknowledged records")
        assert not self.failures, self.failures[:3]

    def stop(self) -> None:
        """Send nothing more."""
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        """Stop producing, and wait until everything sent is acknowledged."""
        self.stop()
        assert self._producer.flush(WAIT_SECONDS) == 0
        assert not self.failures, self.failures[:3]

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                try:
                    self._producer.produce(
                        self.topic, str(number).encode(), partition=partition, on_delivery=self._delivered
                    )
                except BufferError:
                    self._producer.poll(0.05)
                    break
            else:
                number += 1
            self._producer.poll(0.001)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition = message.value(), message.partition()
        assert value is not None
        assert partition is not None
        self.acknowledged[partition].append(int(value))

    def check(self) -> None:
        """Every acknowledged record is there once and in order, and nothing else is."""
        stored = read_all(self.bootstrap, self.topic)
        for partition in range(PARTITIONS):
            acknowledged = self.acknowledged[partition]
            assert stored[partition] == sorted(acknowledged), (
                f"partition {partition}: {len(acknowledged)} acknowledged, {len(stored[partition])} stored, "
                f"{len(set(stored[partition]))} distinct"
            )


def read_all(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """The numbers in every partition, in the order of their offsets."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 2}
    )
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in found}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        left = {partition for partition, end in ends.items() if end > 0}
        deadline = time.monotonic() + WAIT_SECONDS
        while left:
            assert time.monotonic() < deadline, f"partitions {sorted(left)} could not be read to {ends}"
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                value, partition, offset = message.value(), message.partition(), message.offset()
                assert value is not None
                assert partition is not None
                assert offset is not None
                found[partition].append(int(value))
                if offset >= ends[partition] - 1:
                    left.discard(partition)
    finally:
        consumer.close()
    return found


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition, with a generous deadline."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
