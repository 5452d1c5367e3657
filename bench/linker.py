"""`python -m bench.linker`: the linker beside MirrorMaker 2, between the same two clusters, copying the same topic.

The source is an Apache Kafka node, the destination an Isthmus node, and both share the machine with the copying process. The first part of
every copy is warm-up. A mirror of the link keeps its batches as they are, MirrorMaker writes records of its own: both are counted in bytes
of records.
"""

import argparse
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import Consumer, TopicPartition

from bench import java_load, report
from bench.__main__ import order, say, scratch
from bench.brokers import ISTHMUS, KAFKA, Broker, install, make
from bench.mirror_maker import MirrorMaker, fetch
from bench.native_load import create_topic, delete_topic
from bench.process import cpu_seconds, peak_resident_mb
from bench.scenarios import Figure

ROUNDS: Final = 3
TOPIC: Final = "load"
_PARTITIONS: Final = 16
RECORD_BYTES: Final = 1024
RECORDS: Final = 1_000_000
_WARM_UP: Final = 0.3
"""Of the records: MirrorMaker's virtual machine is slow before it knows what it does."""
_GIVE_UP_SECONDS: Final = 300
_POLL_SECONDS: Final = 0.05
SCENARIO: Final = "1 KiB records, 16 partitions, one worker"
FIGURES: Final = {
    "throughput": Figure("MB/s", more_is_better=True, target=2.0),
    "copied by CPU": Figure("MB/CPU-s", more_is_better=True, target=15.0),
    "resident, highest": Figure("MB", target=0.1),
}
_HEADING: Final = report.Heading(
    "The linker beside MirrorMaker 2",
    "the same source and destination on one machine in the same run, the order changing every round",
    "MirrorMaker 2",
    "",
)


class Copier(Protocol):
    """The copying process."""

    @property
    def pid(self) -> int:
        """The process id."""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.linker", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    fetch()
    facts = report.conditions(rounds)
    rows = report.Rows()
    with scratch() as directory, clusters(directory) as (source, destination):
        java_load.produce(source.bootstrap, TOPIC, RECORDS, RECORD_BYTES, 0)
        for number in range(rounds):
            for system in order(number):
                copy = _by_linker if system == ISTHMUS else by_mirror_maker
                figures = copy(directory, source, destination, number)
                say(number, SCENARIO, system, figures)
                rows.add(SCENARIO, FIGURES, system, figures)
    print(report.write(rows.complete(), facts, "linker", _HEADING).read_text())


@contextmanager
def clusters(directory: Path) -> Iterator[tuple[Broker, Broker]]:
    """The source, with its topic, and the destination."""
    source, destination = make(KAFKA, directory / "source"), make(ISTHMUS, directory / "destination")
    try:
        for broker in (source, destination):
            broker.start()
            broker.await_serving()
        create_topic(source.bootstrap, TOPIC, _PARTITIONS)
        yield source, destination
    finally:
        source.stop()
        destination.stop()


def _by_linker(directory: Path, source: Broker, destination: Broker, number: int) -> dict[str, float]:
    name = f"link{number}"
    _isthmus(
        destination, "link", "create", name, "--source", source.bootstrap, "--config", f"cluster.link.prefix={name}."
    )
    log = (directory / f"{name}.log").open("wb")
    worker = subprocess.Popen([install() / "isthmus", "linker", "-b", destination.bootstrap], stdout=log, stderr=log)
    try:
        _isthmus(destination, "link", "mirror", "create", name, TOPIC)
        return measure(destination, f"{name}.{TOPIC}", worker)
    finally:
        worker.terminate()
        worker.wait()
        log.close()
        _isthmus(destination, "link", "delete", name, "--force")
        delete_topic(destination.bootstrap, f"{name}.{TOPIC}")


def by_mirror_maker(directory: Path, source: Broker, destination: Broker, number: int) -> dict[str, float]:
    """The figures of MirrorMaker's copy."""
    alias = f"mm{number}"
    maker = MirrorMaker(directory / alias, source.bootstrap, destination.bootstrap, alias, TOPIC)
    maker.start()
    try:
        return measure(destination, f"{alias}.{TOPIC}", maker)
    finally:
        maker.stop()
        delete_topic(destination.bootstrap, f"{alias}.{TOPIC}")


def _isthmus(destination: Broker, *arguments: str) -> None:
    subprocess.run(
        [install() / "isthmus", *arguments, "-b", destination.bootstrap], check=True, stdout=subprocess.DEVNULL
    )


def measure(destination: Broker, topic: str, copier: Copier) -> dict[str, float]:
    """From the end of the warm-up to the last record."""
    reader = Consumer({"bootstrap.servers": destination.bootstrap, "group.id": "bench", "log_level": 0})
    try:
        before = _await_records(reader, topic, int(RECORDS * _WARM_UP))
        began, cpu = time.perf_counter(), cpu_seconds(copier.pid)
        after = _await_records(reader, topic, RECORDS)
        seconds, cpu = time.perf_counter() - began, cpu_seconds(copier.pid) - cpu
    finally:
        reader.close()
    megabytes = (after - before) * RECORD_BYTES / 1e6
    return {
        "throughput": megabytes / seconds,
        "copied by CPU": megabytes / cpu,
        "resident, highest": peak_resident_mb(copier.pid),
    }


def _await_records(reader: Consumer, topic: str, count: int) -> int:
    """Wait for a number of records; returns the current number."""
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    while True:
        count_now = 0
        if topic in reader.list_topics(timeout=10).topics:
            ends = [reader.get_watermark_offsets(TopicPartition(topic, p), timeout=10) for p in range(_PARTITIONS)]
            count_now = sum(end[1] for end in ends if end is not None)
        if count_now >= count:
            return count_now
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} has {count_now} of {count} records after {_GIVE_UP_SECONDS} seconds")
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
