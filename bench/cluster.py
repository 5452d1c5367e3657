"""`python -m bench.cluster`: three nodes of each system, the same load: replicated throughput and latency, failover, memory.

The systems run one after the other in every round, never at once: six brokers would not find room on two cores.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench import java_load, native_load, report
from bench.__main__ import order, say, scratch
from bench.brokers import ISTHMUS
from bench.clusters import ThreeNodes
from bench.scenarios import GIGABYTE, LATENCY_RATE, Figure, percentiles

_ROUNDS: Final = 3
_MEGABYTES: Final = 300
_LATENCY_SECONDS: Final = 10
_FAILOVERS: Final = {ISTHMUS: 30}
_FAILOVERS_OF_PEER: Final = 5
"""Of the peer fewer are timed: each takes it ten seconds and a slow start."""
_GIVE_UP_SECONDS: Final = 60.0

THROUGHPUT: Final = "3 nodes, RF 3, acks=all: 1 KiB, 16 partitions"
LATENCY: Final = f"3 nodes, RF 3, acks=all: {LATENCY_RATE} records/s of 1 KiB"
FAILOVER: Final = "3 nodes: SIGKILL of a leader to the next acknowledged record"
MEMORY: Final = "3 nodes: memory"
_FIGURES: Final = {
    THROUGHPUT: {
        "produce": Figure("MB/s", more_is_better=True, target=1.0),
        "CPU in, all nodes": Figure("CPU-s/GB"),
    },
    LATENCY: {
        "Java p50": Figure("ms"),
        "Java p99": Figure("ms", target=1.0),
        "librdkafka p50": Figure("ms"),
        "librdkafka p99": Figure("ms", target=1.0),
        "librdkafka p99.9": Figure("ms"),
    },
    FAILOVER: {"p50": Figure("s"), "p99": Figure("s", target=0.2), "worst": Figure("s")},
    MEMORY: {"resident, idle": Figure("MB"), "resident, after load": Figure("MB")},
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--failovers", type=int, help="of Isthmus, default 30")
    arguments = parser.parse_args()
    rows, facts = report.Rows(), report.conditions(arguments.rounds)
    with scratch() as directory:
        for number in range(arguments.rounds):
            for system in order(number):
                failovers = 0
                if number == arguments.rounds - 1:  # once: they need many rounds of their own
                    failovers = arguments.failovers or _FAILOVERS.get(system, _FAILOVERS_OF_PEER)
                _measure(system, directory / f"{number}-{system}", number, rows, failovers)
    print(report.write(rows.complete(), facts, "cluster").read_text())


def _measure(system: str, directory: Path, number: int, rows: report.Rows, failovers: int) -> None:
    def add(scenario: str, figures: dict[str, float]) -> None:
        say(number, scenario, system, figures)
        rows.add(scenario, _FIGURES[scenario], system, figures)

    cluster = ThreeNodes(system, directory)
    try:
        cluster.start()
        time.sleep(2.0)
        idle = cluster.resident_mb()
        _throughput(cluster, "warm-up")
        add(THROUGHPUT, _throughput(cluster, "throughput"))
        add(LATENCY, _latency(cluster))
        add(MEMORY, {"resident, idle": idle, "resident, after load": cluster.resident_mb()})
        if failovers:
            add(FAILOVER, _failover(cluster, failovers))
    finally:
        cluster.stop()


def _throughput(cluster: ThreeNodes, topic: str) -> dict[str, float]:
    records = _MEGABYTES * 1_000_000 // 1024
    measured: list[float] = []
    with cluster.topic(topic, 16):

        def load() -> None:
            done = java_load.produce(cluster.bootstrap, topic, records, 1024, records // 5, batch_size="65536")
            measured.append(done.mb_per_second)

        cpu = cluster.cpu_of(load)
    return {"produce": measured[0], "CPU in, all nodes": cpu / (records * 1024 / GIGABYTE)}


def _latency(cluster: ThreeNodes) -> dict[str, float]:
    with cluster.topic("latency", 16) as topic:
        warmup = LATENCY_RATE * 2
        records = LATENCY_RATE * _LATENCY_SECONDS + warmup
        java = java_load.produce(cluster.bootstrap, topic, records, 1024, warmup, LATENCY_RATE, linger_ms="0")
        native = native_load.produce_latencies_ms(cluster.bootstrap, topic, LATENCY_RATE, _LATENCY_SECONDS)
    return {"Java p50": java.p50_ms, "Java p99": java.p99_ms, **percentiles("librdkafka", native)}


def _failover(cluster: ThreeNodes, rounds: int) -> dict[str, float]:
    seconds = []
    with cluster.topic("failover", 1) as topic:
        for _ in range(rounds):
            cluster.await_in_sync(topic)
            leader = cluster.leader(topic)
            with _Stream(cluster.bootstrap, topic) as stream:
                stream.await_next(time.perf_counter())
                killed = time.perf_counter()
                cluster.brokers[leader].kill()
                seconds.append(stream.await_next(killed) - killed)
            cluster.brokers[leader].start()
            cluster.brokers[leader].await_serving()
            cluster.await_brokers()
        cluster.await_in_sync(topic)
    seconds.sort()
    p99 = seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]
    return {"p50": statistics.median(seconds), "p99": p99, "worst": seconds[-1]}


class _Stream:
    """A producer of librdkafka, with its own defaults, that sends a record every few milliseconds until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        )
        self._ended = threading.Event()
        self._acknowledged = threading.Condition()
        self._newest = 0.0  # when the newest acknowledged record was sent
        self._told_at = 0.0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._producer.flush(_GIVE_UP_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(self._topic, b"x" * 100, on_delivery=self._delivered(time.perf_counter()))
            self._producer.poll(0.005)

    def _delivered(self, sent: float) -> Callable[[object, object], None]:
        def delivered(error: object, _message: object) -> None:
            if error is None:
                with self._acknowledged:
                    self._newest, self._told_at = max(self._newest, sent), time.perf_counter()
                    self._acknowledged.notify_all()

        return delivered

    def await_next(self, after: float) -> float:
        """When the first record sent after that time was acknowledged."""
        with self._acknowledged:
            if not self._acknowledged.wait_for(lambda: self._newest > after, _GIVE_UP_SECONDS):
                raise RuntimeError("nothing was acknowledged")
            return self._told_at


if __name__ == "__main__":
    main()
