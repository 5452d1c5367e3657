"""A load that records its history, and the check that the log explains it."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from isthmus_client.batch_io import Fetched, FetchFrom, fetch_batches
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition as Place
from isthmus_client.requests_by_broker import results
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.records import batches

from tests.histories import UNKNOWN, Acknowledged, Event, FinalRead, Sent, Writer, violations

PARTITIONS = 4
WAIT_SECONDS = 120
PAUSE_SECONDS: Final = 0.002
"""Between two rounds over the partitions: a thousand records or so a second load a cluster, and leave processor time for what is tested."""
LINGER_MS: Final = 25
"""Long enough that five batches are rarely in flight: while they are, and another is due, librdkafka waits in a busy loop."""
CLIENT_SETTINGS: Final[Mapping[str, Any]] = {
    "socket.timeout.ms": 5_000,  # how long a client waits for a node that does not respond; 60 s by default
    "reconnect.backoff.max.ms": 200,
    "log_level": 2,
}


class Ledger:
    """Produces numbered records to every partition, idempotent and with acks=all, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, *, keys: int = 0, pause_seconds: float = PAUSE_SECONDS) -> None:
        """With `keys`, the topic is compacted and its records have so many keys. It pauses after each round over the partitions."""
        self.bootstrap = bootstrap
        self.topic = topic
        self.history: list[Event] = []
        self.acknowledged: dict[int, int] = defaultdict(int)
        """Records by partition."""
        self.failures: list[str] = []
        self.resent = 0
        """Copies of records that the check found: librdkafka can send an idempotent record again under a new producer epoch."""
        self._producer = Producer(
            {
                **CLIENT_SETTINGS,
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": LINGER_MS,
                "batch.size": 16384,  # segments may be small
                "message.timeout.ms": WAIT_SECONDS * 1000,
                "retry.backoff.ms": 20,
            }
        )
        self._keys = keys
        self._pause_seconds = pause_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def total(self) -> int:
        """Records acknowledged so far."""
        return sum(self.acknowledged.values())

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
            value = str(number).encode()
            key = b"k%d" % (number % self._keys) if self._keys else None
            for partition in range(PARTITIONS):
                try:
                    self._producer.produce(self.topic, value, key, partition=partition, on_delivery=self._delivered)
                except BufferError:
                    self._producer.poll(0.05)
                    break
                self.history.append(Sent("ledger", (self.topic, partition), value, key))
            number += 1
            self._producer.poll(0.001)
            self._stop.wait(self._pause_seconds)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value, partition, offset = message.value(), message.partition(), message.offset()
        if error is not None or value is None or partition is None:
            self.failures.append(str(error or "an acknowledgement without its record"))
            return
        self.history.append(Acknowledged((self.topic, partition), value, UNKNOWN if offset is None else offset))
        self.acknowledged[partition] += 1

    def check(self) -> None:
        """Every acknowledged record is there, in order and once for each producer epoch, and nothing else; with keys, the last of each."""
        final = [
            read._replace(writers=writers_of(self.bootstrap, read)) for read in read_all(self.bootstrap, self.topic)
        ]
        self.resent = sum(read.resent() for read in final)
        if self._keys:
            assert violations([*self.history, *final], compacted={self.topic}) == []
            return
        assert violations([*self.history, *final]) == []
        assert {read.partition[1]: len({*read.records.values()}) for read in final} == {
            partition: self.acknowledged[partition] for partition in range(PARTITIONS)
        }


def read_all(bootstrap: str, topic: str) -> list[FinalRead]:
    """Every partition from its start to its end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 2}
    )
    records: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
    try:
        marks = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in records}
        consumer.assign([TopicPartition(topic, partition, start) for partition, (start, _) in marks.items()])
        left = {partition for partition, (start, end) in marks.items() if end > start}
        deadline = time.monotonic() + WAIT_SECONDS
        while left:
            assert time.monotonic() < deadline, f"partitions {sorted(left)} could not be read to {marks}"
            for message in consumer.consume(1000, 0.2):
                assert message.error() is None, message.error()
                value, partition, offset = message.value(), message.partition(), message.offset()
                assert value is not None
                assert partition is not None
                assert offset is not None
                records[partition][offset] = value
                if offset >= marks[partition][1] - 1:
                    left.discard(partition)
    finally:
        consumer.close()
    return [FinalRead((topic, p), *marks[p], values) for p, values in records.items()]


def writers_of(bootstrap: str, read: FinalRead) -> dict[int, Writer]:
    """Who wrote each record of a partition, as its batches have it."""

    partition = Place(*read.partition)

    async def fetch(client: Client, offset: int) -> Fetched:
        async def attempt() -> Fetched:
            return results(await fetch_batches(client, {partition: FetchFrom(offset)}))[partition]

        return await client.retry(f"fetch {partition}", attempt)

    async def read_all_batches() -> dict[int, Writer]:
        writers: dict[int, Writer] = {}
        offset = read.start
        async with asyncio.timeout(WAIT_SECONDS), Client(parse_bootstrap(bootstrap), client_id="test") as client:
            while offset < read.end:
                for _, header in batches((await fetch(client, offset)).records):
                    writer = header.producer_id, header.producer_epoch
                    writers.update(dict.fromkeys(range(header.base_offset, header.last_offset + 1), writer))
                    offset = header.last_offset + 1
        return writers

    return asyncio.run(read_all_batches())


def wait_until(condition: Callable[[], bool], what: str, state: Callable[[], object] | None = None) -> None:
    """Wait for a condition, with a generous deadline; `state` describes what there is instead.

    A condition that takes long, as a command does, is checked less often: it would take the processor from what is waited for.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        assert now < deadline, f"waited in vain for {what}{'' if state is None else f'; there is {state()}'}"
        time.sleep(min(max(0.01, 2 * (now - began)), 0.5))
