"""What is measured: each scenario takes a running broker (or makes one) and returns figures by name."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import java_load, native_load
from bench.brokers import Broker, make
from bench.process import peak_resident_mb, proportional_mb, resident_mb

GIGABYTE: Final = 1e9
LATENCY_RATE: Final = 5_000
# Long enough for what a start leaves behind to settle.
IDLE_SECONDS: Final = 5.0

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a scenario: `target` bounds Isthmus over Kafka, from below when more is better."""

    unit: str
    more_is_better: bool = False
    target: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """Figures, and how to measure those of one system."""

    name: str
    figures: Mapping[str, Figure]
    measure: Callable[[Broker], dict[str, float]]


@contextmanager
def new_topic(broker: Broker, partitions: int, config: Mapping[str, str] | None = None) -> Iterator[str]:
    """A topic that is deleted after the block."""
    name = f"bench-{next(_numbers)}"
    native_load.create_topic(broker.bootstrap, name, partitions, config)
    yield name
    native_load.delete_topic(broker.bootstrap, name)


def throughput(size: int, partitions: int, compression: str, megabytes: int) -> Scenario:
    """Produce with acks=all, then consume the same records, with the broker's CPU time of each."""
    records = megabytes * 1_000_000 // size
    warmup = records // 5

    def measure(broker: Broker) -> dict[str, float]:
        figures: dict[str, float] = {}
        with new_topic(broker, partitions) as topic:

            def produce() -> None:
                done = java_load.produce(
                    broker.bootstrap, topic, records, size, warmup, compression_type=compression, batch_size="65536"
                )
                figures["produce"] = done.mb_per_second

            def consume() -> None:
                figures["consume"] = java_load.consume(broker.bootstrap, topic, records)

            gigabytes = records * size / GIGABYTE
            figures["CPU in"] = broker.cpu_of(produce) / gigabytes
            figures["CPU out"] = broker.cpu_of(consume) / gigabytes
        return figures

    # The CPU targets are for bytes on the wire, which are known only for uncompressed records.
    whole = compression == "none" and size == 1024
    figures = {
        "produce": Figure("MB/s", more_is_better=True, target=1.0),
        "consume": Figure("MB/s", more_is_better=True, target=1.0),
        "CPU in": Figure("CPU-s/GB", target=0.15 if whole else None),
        "CPU out": Figure("CPU-s/GB", target=0.7 if whole else None),
    }
    return Scenario(f"{size} B, {partitions} partitions, {compression}", figures, measure)


def produce_latency(seconds: int) -> Scenario:
    """At a fixed rate of 1 KiB records without linger, from the Java tool (whole milliseconds) and from librdkafka."""

    def measure(broker: Broker) -> dict[str, float]:
        with new_topic(broker, 16) as topic:
            warmup = LATENCY_RATE * 2
            java = java_load.produce(
                broker.bootstrap,
                topic,
                LATENCY_RATE * seconds + warmup,
                1024,
                warmup,
                LATENCY_RATE,
                linger_ms="0",
            )
            native = native_load.produce_latencies_ms(broker.bootstrap, topic, LATENCY_RATE, seconds)
        return {
            "Java p50": java.p50_ms,
            "Java p99": java.p99_ms,
            "Java p99.9": java.p999_ms,
            **percentiles("librdkafka", native),
        }

    milliseconds = Figure("ms")
    figures = {f"{who} {which}": milliseconds for who in ("Java", "librdkafka") for which in ("p50", "p99", "p99.9")}
    for who in ("Java", "librdkafka"):
        figures[f"{who} p99"] = Figure("ms", target=1.0)
    return Scenario(f"produce latency at {LATENCY_RATE} records/s of 1 KiB", figures, measure)


def end_to_end_latency(count: int) -> Scenario:
    """Produce to consume, one record at a time."""

    def measure(broker: Broker) -> dict[str, float]:
        with new_topic(broker, 1) as topic:
            return percentiles("", native_load.end_to_end_latencies_ms(broker.bootstrap, topic, count))

    figures = {which: Figure("ms") for which in ("p50", "p99", "p99.9")}
    return Scenario("end-to-end latency, one record at a time", figures, measure)


def unbatched(count: int) -> Scenario:
    """Small requests, many in flight."""

    def measure(broker: Broker) -> dict[str, float]:
        with new_topic(broker, 1) as topic:
            rates: list[float] = []

            def load() -> None:
                rates.append(native_load.unbatched_requests_per_second(broker.bootstrap, topic, count))

            cpu = broker.cpu_of(load)
        return {"requests": rates[0], "CPU": cpu / count * 1_000_000}

    figures = {"requests": Figure("1/s", more_is_better=True, target=1.0), "CPU": Figure("CPU-µs/request")}
    return Scenario("unbatched produce requests", figures, measure)


def memory_under_load() -> Scenario:
    """The most that was resident in all measurements so far."""

    def measure(broker: Broker) -> dict[str, float]:
        return {"peak RSS": peak_resident_mb(broker.pid)}

    return Scenario("memory under load", {"peak RSS": Figure("MB")}, measure)


def start(name: str, directory: Path) -> dict[str, float]:
    """A process of its own: memory when idle, then from a start over existing files to the first acknowledged record."""
    broker = make(name, directory)
    broker.start()
    try:
        broker.await_serving()
        native_load.create_topic(broker.bootstrap, "first", 1)
        time.sleep(IDLE_SECONDS)
        idle, proportional = resident_mb(broker.pid), proportional_mb(broker.pid)
        broker.stop()
        seconds = native_load.seconds_to_first_acknowledgement(broker.bootstrap, "first", broker.start)
    finally:
        broker.stop()
    return {"first acknowledged produce": seconds, "idle RSS": idle, "idle PSS": proportional}


START_NAME: Final = "start"
START_FIGURES: Final = {
    "first acknowledged produce": Figure("s", target=0.3),
    "idle RSS": Figure("MB", target=0.15),
    "idle PSS": Figure("MB"),
}


def percentiles(prefix: str, ordered: Sequence[float]) -> dict[str, float]:
    """Of sorted values."""

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    return {f"{prefix} {name}".strip(): at(share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}


def full() -> list[Scenario]:
    """Everything."""
    cases = itertools.product((100, 1024), (1, 16, 256), ("none", "lz4"))
    return [
        *(
            throughput(size, partitions, compression, 120 if size == 100 else 300)
            for size, partitions, compression in cases
        ),
        produce_latency(10),
        end_to_end_latency(3000),
        unbatched(60_000),
        memory_under_load(),
    ]


def quick() -> list[Scenario]:
    """One of each kind, short."""
    return [
        throughput(1024, 16, "none", 300),
        throughput(100, 16, "lz4", 80),
        produce_latency(5),
        end_to_end_latency(1000),
        unbatched(30_000),
        memory_under_load(),
    ]
