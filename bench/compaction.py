"""`python -m bench.compaction`: how fast one thread of each system's cleaner compacts a topic."""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Producer
from isthmus_broker.edge.storage.checkpoints import CLEANED, read_offsets
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_client.admin import configs
from isthmus_client.admin.configs import Change, Operation, Resource
from isthmus_client.requests_by_broker import results
from isthmus_model.config_resources import ResourceType

from bench import report
from bench.__main__ import measure_running, scratch
from bench.brokers import Broker
from bench.profile import Load, write_page
from bench.scenarios import GIGABYTE, Figure, Scenario, new_topic
from tests.system.quorums import query

_ROUNDS: Final = 3
_MEGABYTES: Final = 400
_SEGMENT_BYTES: Final = 64 * 1024 * 1024
_WAIT_SECONDS: Final = 300
_POLL_SECONDS: Final = 0.005
_LATER: Final = "min.compaction.lag.ms"
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    _LATER: "3600000",
}
"""Nothing is compacted before the measurement begins."""
_FIGURES: Final = {
    "cleaned": Figure("MB/s", more_is_better=True, target=1.0),
    "CPU": Figure("CPU-s/GB"),
    "kept": Figure("% of the bytes"),
}
_HEADING: Final = report.Heading(title="Compaction beside Apache Kafka", more="")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compaction", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--megabytes", type=int, default=_MEGABYTES, help=f"of each topic, default {_MEGABYTES}")
    parser.add_argument("--only", default="", metavar="NAME", help="scenarios whose name contains this")
    parser.add_argument("--profile", action="store_true", help="only where the node's CPU goes")
    arguments = parser.parse_args()
    scenarios = [one for one in _scenarios(arguments.megabytes * 1_000_000) if arguments.only in one.name]
    with scratch() as directory:
        if arguments.profile:
            loads = [Load(one.name, one.measure) for one in scenarios]
            title = "Where the CPU of a node goes in compaction"
            print(write_page(directory, "compaction-profile", title, loads).read_text())
            return
        rows, facts = report.Rows(), report.conditions(arguments.rounds)
        facts["data"] = f"{arguments.megabytes} MB in segments of {_SEGMENT_BYTES >> 20} MiB, each key ten times"
        measure_running(directory, rows, scenarios, arguments.rounds, scenarios)
    stem = f"only-{arguments.only}" if arguments.only else "compaction"
    print(report.write(rows.complete(), facts, stem, _HEADING).read_text())


def _scenarios(size: int) -> list[Scenario]:
    return [
        _scenario(f"records of {value} B, {codec}", value, codec, size // value)
        for value, codec in ((1024, "none"), (100, "none"), (100, "lz4"))
    ]


def _scenario(name: str, value: int, codec: str, records: int) -> Scenario:
    def measure(broker: Broker) -> dict[str, float]:
        _configure(broker.bootstrap, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
        with new_topic(broker, 1, _COMPACTED) as topic:
            _write(broker.bootstrap, topic, value, codec, records)
            return _compact(broker, topic)

    return Scenario(name, _FIGURES, measure)


def _write(bootstrap: str, topic: str, size: int, codec: str, records: int) -> None:
    """Ten records of each key, in no order, with values that compress about as well as JSON does."""
    random = Random(1)
    values = [random.randbytes(size // 4).hex().encode().ljust(size, b" ") for _ in range(1000)]
    keys = records // 10
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.size": 65536,
            "log_level": 0,
        }
    )
    for number in range(records):
        key = b"%012d" % random.randrange(keys)
        while True:
            try:
                producer.produce(topic, values[number % 1000], key)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_WAIT_SECONDS):
        raise RuntimeError("not every record was written")


def _compact(broker: Broker, topic: str) -> dict[str, float]:
    """Everything but the active segment is cleaned, once."""
    log = broker.directory / "data" / f"{topic}-0"
    *closed, active = sorted(log.glob("*.log"))
    before = sum(path.stat().st_size for path in closed)
    end = int(active.stem)
    started = time.monotonic()

    def clean() -> None:
        _configure(broker.bootstrap, ResourceType.TOPIC, topic, {_LATER: "0"})
        while _clean_to(log.parent, topic) < end:
            if time.monotonic() > started + _WAIT_SECONDS:
                raise RuntimeError(f"{broker.name} did not compact {topic} within {_WAIT_SECONDS} s")
            time.sleep(_POLL_SECONDS)

    cpu = broker.cpu_of(clean)
    seconds = time.monotonic() - started
    kept = sum(path.stat().st_size for path in log.glob("*.log") if path.name < active.name)
    return {"cleaned": before / seconds / 1e6, "CPU": cpu / (before / GIGABYTE), "kept": 100 * kept / before}


def _clean_to(directory: Path, topic: str) -> int:
    """The offset below which the cleaner has finished; both systems write the same file."""
    return (read_offsets(SYSTEM, directory / CLEANED) or {}).get((topic, 0), 0)


def _configure(bootstrap: str, kind: ResourceType, name: str, settings: Mapping[str, str]) -> None:
    changes = {Resource(kind, name): [Change(key, Operation.SET, value) for key, value in settings.items()]}
    results(query(bootstrap, lambda client: configs.alter(client, changes)))


if __name__ == "__main__":
    main()
