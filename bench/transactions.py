"""`python -m bench.transactions`: transactions on one node of each system, from the Java client, librdkafka and our own."""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Final

from bench import java_load, java_programs, native_load, report, transactional_ids
from bench.__main__ import measure_running, order, say, scratch
from bench.brokers import Broker, make
from bench.process import resident_mb
from bench.profile import Load, write_page
from bench.scenarios import GIGABYTE, IDLE_SECONDS, LATENCY_RATE, Figure, Scenario, new_topic, percentiles

_ROUNDS: Final = 3
_SECONDS: Final = 10
_TRANSACTION_MS: Final = 100
_MEGABYTES_OF_SECOND: Final = 30
_PARTITIONS: Final = 16
_RECORD: Final = 1024
_TRANSFORM_RATE: Final = 500
_IDS: Final = 10_000
_IDS_PROFILED: Final = 2_000
_IDS_TOPIC: Final = "ids"
_IDS_NAME: Final = f"{_IDS:,} transactional ids, one transaction of each"
_IDS_FIGURES: Final = {
    # The client takes nearly as much CPU time as a broker, on the same cores: compare the broker's.
    "ids, our client": Figure("1/s", more_is_better=True),
    "CPU": Figure("CPU-µs/id", target=1.0),
    "resident before": Figure("MB"),
    "resident after": Figure("MB", target=1.0),
    "restart to first InitProducerId": Figure("s", target=1.0),
}
_HEADING: Final = report.Heading(title="Transactions beside Apache Kafka", more="")
_TO_MICROSECONDS: Final = 1_000_000


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.transactions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--seconds", type=int, default=_SECONDS, help=f"of each measurement, default {_SECONDS}")
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name contains this")
    parser.add_argument("--profile", action="store_true", help="only where the node's CPU goes")
    arguments = parser.parse_args()
    chosen = [one for one in _scenarios(arguments.seconds) if arguments.only in one.name]
    with scratch() as directory:
        if arguments.profile:
            loads = [Load(one.name, one.measure) for one in chosen]
            if arguments.only in _IDS_NAME:
                loads.append(Load(f"{_IDS_PROFILED:,} transactional ids", partial(_commit_ids, count=_IDS_PROFILED)))
            title = "Where the CPU of a node goes in transactions"
            print(write_page(directory, "transactions-profile", title, loads).read_text())
            return
        rows, facts = report.Rows(), report.conditions(arguments.rounds)
        facts["seconds of each measurement"] = arguments.seconds
        if chosen:
            # Java compiles a broker's code while that is used: a whole round is run first, and not counted.
            measure_running(directory, rows, chosen, arguments.rounds, chosen)
        if arguments.only in _IDS_NAME:
            _measure_ids(directory, rows, arguments.rounds)
    stem = f"only-{arguments.only}" if arguments.only else "transactions"
    print(report.write(rows.complete(), facts, stem, _HEADING).read_text())


def _scenarios(seconds: int) -> list[Scenario]:
    """Those that share a running broker."""
    warm_up = max(2, seconds // 2)
    return [
        _throughput(seconds),
        _latency(seconds),
        _single_records(warm_up, seconds),
        _transform(warm_up, seconds),
    ]


def _throughput(seconds: int) -> Scenario:
    """As fast as the Java client sends."""
    records = _MEGABYTES_OF_SECOND * seconds * 1_000_000 // _RECORD

    def measure(broker: Broker) -> dict[str, float]:
        done: list[java_load.Produced] = []
        with new_topic(broker, _PARTITIONS) as topic:

            def load() -> None:
                warmup = records // 5
                produced = java_load.produce(
                    broker.bootstrap,
                    topic,
                    records,
                    _RECORD,
                    warmup,
                    transaction_ms=_TRANSACTION_MS,
                    batch_size="65536",
                )
                done.append(produced)

            cpu = broker.cpu_of(load)
        return {
            "produce": done[0].mb_per_second,
            "p99": done[0].p99_ms,
            "CPU": cpu / (records * _RECORD / GIGABYTE),
        }

    figures = {
        "produce": Figure("MB/s", more_is_better=True, target=1.0),
        "p99": Figure("ms", target=1.0),
        "CPU": Figure("CPU-s/GB"),
    }
    name = f"{_RECORD} B, {_PARTITIONS} partitions, a commit every {_TRANSACTION_MS} ms, full speed"
    return Scenario(name, figures, measure)


def _latency(seconds: int) -> Scenario:
    """At a fixed rate, from send to acknowledgement; records wait at the client while it commits."""

    def measure(broker: Broker) -> dict[str, float]:
        with new_topic(broker, _PARTITIONS) as topic:
            warmup = LATENCY_RATE * 2
            done = java_load.produce(
                broker.bootstrap,
                topic,
                LATENCY_RATE * seconds + warmup,
                _RECORD,
                warmup,
                LATENCY_RATE,
                transaction_ms=_TRANSACTION_MS,
                linger_ms="0",
            )
        return {"p50": done.p50_ms, "p99": done.p99_ms, "p99.9": done.p999_ms}

    figures = {"p50": Figure("ms"), "p99": Figure("ms", target=1.0), "p99.9": Figure("ms")}
    return Scenario(f"{LATENCY_RATE} records/s of 1 KiB, a commit every {_TRANSACTION_MS} ms", figures, measure)


def _single_records(warm_up: int, seconds: int) -> Scenario:
    """One transaction after another, from one producer."""

    def measure(broker: Broker) -> dict[str, float]:
        figures: dict[str, float] = {}
        with new_topic(broker, 1) as topic:

            def from_java() -> None:
                arguments = (broker.bootstrap, topic, warm_up, seconds)
                numbers = java_programs.run("SingleRecordTransactions", *arguments)
                figures.update(zip(("Java", "Java p50", "Java p99"), numbers, strict=True))

            def from_librdkafka() -> None:
                latencies = native_load.single_record_transactions(broker.bootstrap, topic, warm_up, seconds)
                figures["librdkafka"] = len(latencies) / seconds
                figures.update(percentiles("librdkafka", latencies))

            for who, load in (("Java", from_java), ("librdkafka", from_librdkafka)):
                cpu = broker.cpu_of(load)
                # The warm-up is part of the load.
                transactions = figures[who] * (warm_up + seconds)
                figures[f"{who} CPU"] = cpu / transactions * _TO_MICROSECONDS
        return figures

    figures = {}
    for who in ("Java", "librdkafka"):
        figures[who] = Figure("1/s", more_is_better=True, target=1.0)
        figures[f"{who} p50"] = Figure("ms")
        figures[f"{who} p99"] = Figure("ms", target=1.0)
        figures[f"{who} CPU"] = Figure("CPU-µs/transaction")
    return Scenario("single-record transactions, one after another", figures, measure)


def _transform(warm_up: int, seconds: int) -> Scenario:
    """What is written, copied in a transaction with the group's offsets, and read with read_committed."""

    def measure(broker: Broker) -> dict[str, float]:
        with new_topic(broker, 1) as source, new_topic(broker, 1) as destination:
            arguments = (broker.bootstrap, source, destination, _TRANSFORM_RATE, warm_up, seconds)
            numbers = java_programs.run("TransformLatency", *arguments)
        return dict(zip(figures, numbers, strict=True))

    figures = {
        "p50": Figure("ms"),
        "p99": Figure("ms", target=1.0),
        "transactions": Figure("1/s", more_is_better=True),
    }
    return Scenario(f"consume-transform-produce, {_TRANSFORM_RATE} records/s: end-to-end latency", figures, measure)


def _measure_ids(directory: Path, rows: report.Rows, rounds: int) -> None:
    for number in range(rounds):
        for system in order(number):
            figures = _ids(system, directory / f"ids-{number}-{system}")
            say(number, _IDS_NAME, system, figures)
            rows.add(_IDS_NAME, _IDS_FIGURES, system, figures)


def _ids(system: str, directory: Path) -> dict[str, float]:
    """A process of its own, with nothing else in its memory."""
    broker = make(system, directory)
    rates: list[float] = []

    def load() -> None:
        rates.append(_commit_ids(broker))

    broker.start()
    try:
        broker.await_serving()
        time.sleep(IDLE_SECONDS)
        before = resident_mb(broker.pid)
        cpu = broker.cpu_of(load)
        time.sleep(IDLE_SECONDS)
        after = resident_mb(broker.pid)
        broker.stop()
        seconds = transactional_ids.seconds_to_first_producer_id(broker.bootstrap, broker.start)
    finally:
        broker.stop()
    return dict(zip(_IDS_FIGURES, (rates[0], cpu / _IDS * _TO_MICROSECONDS, before, after, seconds), strict=True))


def _commit_ids(broker: Broker, count: int = _IDS) -> float:
    """The topic stays: what its leaders remember of producers is part of the memory."""
    native_load.create_topic(broker.bootstrap, _IDS_TOPIC, _PARTITIONS)
    return transactional_ids.commit_once_each(broker.bootstrap, _IDS_TOPIC, count)


if __name__ == "__main__":
    main()
