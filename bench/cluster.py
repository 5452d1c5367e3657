"""`python -m bench.cluster`: three nodes of each system, the same load: replicated throughput and latency, failover, memory.

The systems run one after the other in every round, never at once: six brokers would not find room on two cores.
"""

import argparse
import signal
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Final

from isthmus_topology.planner import FAILOVER_SETTINGS

from bench import java_load, native_load, report
from bench.__main__ import order, say, scratch
from bench.brokers import ISTHMUS
from bench.clusters import ThreeNodes
from bench.scenarios import GIGABYTE, LATENCY_RATE, Figure, percentiles
from tests.stream import TWO_SECONDS, Stream

_ROUNDS: Final = 3
_MEGABYTES: Final = 300
_LATENCY_SECONDS: Final = 10
_FAILOVERS: Final = {ISTHMUS: 30}
_FAILOVERS_OF_PEER: Final = 5
"""Of the peer fewer are timed: each takes it ten seconds and a slow start."""
_PAUSES: Final = 10

THROUGHPUT: Final = "3 nodes, RF 3, acks=all: 1 KiB, 16 partitions"
LATENCY: Final = f"3 nodes, RF 3, acks=all: {LATENCY_RATE} records/s of 1 KiB"
FAILOVER: Final = "3 nodes: SIGKILL of a leader to the next acknowledged record"
PAUSE: Final = "3 nodes with the settings of `isthmus up`: SIGSTOP of a leader, producer with a timeout of 2 to 3 s"
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
    PAUSE: {"p50": Figure("s"), "worst": Figure("s")},
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
                if failovers:
                    figures = _pauses(system, directory / f"paused-{system}")
                    say(number, PAUSE, system, figures)
                    rows.add(PAUSE, _FIGURES[PAUSE], system, figures)
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
            with Stream(cluster.bootstrap, topic) as stream:
                stream.seconds_until_next()
                seconds.append(stream.seconds_until_next(cluster.brokers[leader].kill))
            cluster.brokers[leader].start()
            cluster.brokers[leader].await_serving()
            cluster.await_brokers()
        cluster.await_in_sync(topic)
    seconds.sort()
    p99 = seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]
    return {"p50": statistics.median(seconds), "p99": p99, "worst": seconds[-1]}


def _pauses(system: str, directory: Path) -> dict[str, float]:
    """A leader that stops responding is replaced; afterwards it continues, and must be in sync again before the next round."""
    seconds = []
    cluster = ThreeNodes(system, directory, settings=FAILOVER_SETTINGS)
    try:
        cluster.start()
        with cluster.topic("paused", 1) as topic:
            for _ in range(_PAUSES):
                cluster.await_in_sync(topic)
                leader = cluster.brokers[cluster.leader(topic)]
                with Stream(cluster.bootstrap, topic, **TWO_SECONDS) as stream:
                    stream.seconds_until_next()
                    seconds.append(stream.seconds_until_next(partial(leader.signal, signal.SIGSTOP)))
                    leader.signal(signal.SIGCONT)
                cluster.await_brokers()
            cluster.await_in_sync(topic)
    finally:
        cluster.stop()
    return {"p50": statistics.median(seconds), "worst": max(seconds)}


if __name__ == "__main__":
    main()
