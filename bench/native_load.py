"""Load from librdkafka, through confluent-kafka: what the Java tools do not measure, or not finely enough."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

WAIT_SECONDS: Final = 120
_QUIET: Final = {"log_level": 0}


def create_topic(bootstrap: str, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Create a topic whose files are deleted soon after it, so that they do not affect the next measurement."""
    new_topic = NewTopic(topic, partitions, 1, config={"file.delete.delay.ms": "1000", **(config or {})})
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    admin.create_topics([new_topic])[topic].result(WAIT_SECONDS)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    admin.delete_topics([topic])[topic].result(WAIT_SECONDS)


class _Deliveries:
    """Counts what was acknowledged; any failure ends the measurement."""

    def __init__(self) -> None:
        self.latencies: list[float] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a record was refused: {error}")
        latency = message.latency()
        assert latency is not None
        self.latencies.append(latency)


def unbatched_requests_per_second(bootstrap: str, topic: str, count: int) -> float:
    """One record of 100 bytes a request, as many in flight as librdkafka sends."""
    delivered = _Deliveries()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 0,
            "batch.num.messages": 1,
            "max.in.flight.requests.per.connection": 1000,
            "queue.buffering.max.messages": 1_000_000,
            "message.timeout.ms": WAIT_SECONDS * 1000,
        }
    )
    value = bytes(100)
    producer.produce(topic, value, on_delivery=delivered)
    _flush(producer)
    started = time.perf_counter()
    for _ in range(count):
        producer.produce(topic, value, on_delivery=delivered)
    _flush(producer)
    return count / (time.perf_counter() - started)


def produce_latencies_ms(bootstrap: str, topic: str, rate: int, seconds: float) -> list[float]:
    """From produce to acknowledgement, as librdkafka times it, at a fixed rate of 1 KiB records without linger."""
    delivered = _Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    value = bytes(1024)
    producer.produce(topic, value, on_delivery=delivered)
    _flush(producer)
    delivered.latencies.clear()
    started = time.perf_counter()
    sent = 0
    while (elapsed := time.perf_counter() - started) < seconds:
        while sent < elapsed * rate:
            producer.produce(topic, value, on_delivery=delivered)
            sent += 1
        producer.poll(0.001)
    _flush(producer)
    return sorted(1000 * latency for latency in delivered.latencies)


def end_to_end_latencies_ms(bootstrap: str, topic: str, count: int) -> list[float]:
    """From produce to the same record in a consumer's hands, one record at a time.

    The first is not counted: librdkafka needs as much as 100 ms to connect, independently of the broker.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "end-to-end", "enable.auto.commit": False})
    latencies = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for number in range(count + 1):
            value = number.to_bytes(100)
            started = time.perf_counter()
            producer.produce(topic, value, partition=0)
            producer.poll(0)
            message = consumer.poll(WAIT_SECONDS)
            latencies.append(1000 * (time.perf_counter() - started))
            if message is None or message.value() != value:
                raise RuntimeError(f"record {number} did not come back")
        _flush(producer)
    finally:
        consumer.close()
    return sorted(latencies[1:])


def single_record_transactions(bootstrap: str, topic: str, warm_up: float, seconds: float) -> list[float]:
    """One record of 100 bytes committed after another, for these seconds; returns the milliseconds of each, sorted."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"librdkafka-{topic}", "linger.ms": 0, **_QUIET}
    )
    producer.init_transactions(WAIT_SECONDS)
    value = bytes(100)
    latencies = []
    started = time.perf_counter()
    before = started
    while before < started + warm_up + seconds:
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.commit_transaction(WAIT_SECONDS)
        after = time.perf_counter()
        if before >= started + warm_up:
            latencies.append(1000 * (after - before))
        before = after
    return sorted(latencies)


def seconds_to_first_acknowledgement(bootstrap: str, topic: str, start: Callable[[], None]) -> float:
    """Time from `start` to the first acknowledgement, for a client that reconnects every few milliseconds."""
    delivered = _Deliveries()
    eager = {
        "reconnect.backoff.ms": 2,
        "reconnect.backoff.max.ms": 4,
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 4,
        "topic.metadata.refresh.fast.interval.ms": 5,
    }
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **eager, **_QUIET})
    producer.produce(topic, b"first", on_delivery=delivered)
    started = time.perf_counter()
    start()
    deadline = started + WAIT_SECONDS
    while not delivered.latencies:
        if time.perf_counter() > deadline:
            raise RuntimeError("nothing was acknowledged")
        producer.poll(0.001)
    return time.perf_counter() - started


def _flush(producer: Producer) -> None:
    if producer.flush(WAIT_SECONDS):
        raise RuntimeError("records were left unacknowledged")
