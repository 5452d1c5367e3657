"""`python -m bench.cluster`: three nodes of each system, the same load: replicated throughput and latency, memory.

The systems run one after the other in every round, never at once: six brokers would not find room on two cores.
"""

import argparse
import time
from pathlib import Path
from typing import Final

from bench import java_load, native_load, report
from bench.__main__ import order, say, scratch
from bench.clusters import ThreeNodes
from bench.scenarios import GIGABYTE, LATENCY_RATE, Figure, percentiles

_ROUNDS: Final = 3
_MEGABYTES: Final = 300
_LATENCY_SECONDS: Final = 10

THROUGHPUT: Final = "3 nodes, RF 3, acks=all: 1 KiB, 16 partitions"
LATENCY: Final = f"3 nodes, RF 3, acks=all: {LATENCY_RATE} records/s of 1 KiB"
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
    MEMORY: {"resident, idle": Figure("MB"), "resident, after load": Figure("MB")},
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    arguments = parser.parse_args()
    rows, facts = report.Rows(), report.conditions(arguments.rounds)
    with scratch() as directory:
        for number in range(arguments.rounds):
            for system in order(number):
                _measure(system, directory / f"{number}-{system}", number, rows)
    print(report.write(rows.complete(), facts, "cluster").read_text())


def _measure(system: str, directory: Path, number: int, rows: report.Rows) -> None:
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


if __name__ == "__main__":
    main()
