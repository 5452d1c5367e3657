"""Consumers in a region that only observes read from its replica, across no distance, and elsewhere when it dies."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pytest
from isthmus_client.admin.topics import NewTopic

from tests.kafka import HOME, SHORT_LIVED_JVM
from tests.system.ledger import wait_until
from tests.system.near_reader import NearReader
from tests.system.stretched import Led, Stretched, running

TOPOLOGY: Final = """
regions = ["west", "east"]
links = [{ between = ["west", "east"], latency_ms = 5 }]

[[clusters]]
name = "c"
config = { "min.insync.replicas" = 2, "leader.imbalance.check.interval.seconds" = 3600 }
nodes = [
  { region = "west", brokers = 2, voters = 1 },
  { region = "east", brokers = 1 },
]
"""
OBSERVER: Final = 3
_READER: Final = Path(__file__).with_name("NearReader.java")
VALUE_BYTES: Final = 1_000
PLACEMENT: Final = {
    "version": 1,
    "replicas": [{"count": 2, "constraints": {"region": "west"}}],
    "observers": [{"count": 1, "constraints": {"region": "east"}}],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretched]:
    with running(tmp_path_factory.mktemp("near"), TOPOLOGY) as made:
        yield made


@pytest.fixture
def cluster(site: Stretched) -> Iterator[Stretched]:
    """Everything runs; topics of a test do not outlive it."""
    yield site
    site.restore("west")


class Reader(Protocol):
    """Reads partition 0 from its start."""

    values: list[bytes | None]

    def has(self, count: int) -> bool: ...

    def is_at(self, broker: int) -> bool: ...

    def close(self) -> None: ...


class JavaReader:
    """Apache Kafka's consumer, with its own word about where it reads."""

    def __init__(self, bootstrap: str, topic: str, rack: str) -> None:
        self.values: list[bytes | None] = []
        self._replica = -1
        self._process = subprocess.Popen(
            ["java", *SHORT_LIVED_JVM, "-cp", f"{HOME}/libs/*", _READER, bootstrap, topic, rack],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")},
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            kind, _, rest = line.rstrip(b"\n").partition(b" ")
            if kind == b"value":
                self.values.append(rest)
            else:
                self._replica = int(rest)

    def has(self, count: int) -> bool:
        assert self._process.poll() is None, "the reader has ended"
        return len(self.values) >= count

    def is_at(self, broker: int) -> bool:
        return self._replica == broker

    def close(self) -> None:
        self._process.kill()
        self._thread.join()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.mark.parametrize("kind", [NearReader, JavaReader], ids=["confluent-kafka", "java"])
def test_observers_are_read_nearby_and_their_death_skips_and_repeats_nothing(
    cluster: Stretched, kind: type[NearReader] | type[JavaReader]
) -> None:
    placed = {"isthmus.placement.constraints": json.dumps(PLACEMENT)}
    cluster.make("west", NewTopic("near", assignments={0: (1, 2, OBSERVER)}, configs=placed))
    cluster.await_led("west", {"near": Led(1, frozenset({1, 2}))})
    sent = [str(number).encode().rjust(VALUE_BYTES, b"0") for number in range(3000)]
    assert cluster.produce("west", "near", sent[:2000]) == {""}
    cluster.await_even("west", "near")
    before = cluster.carried("west", "east")
    reader: Reader = kind(cluster.bootstrap("east"), "near", "east/a")
    try:
        wait_until(lambda: reader.has(2000) and reader.is_at(OBSERVER), "records from the observer")
        assert cluster.carried("west", "east") - before < 2000 * VALUE_BYTES / 10
        cluster.kill("east-1")
        assert cluster.produce("west", "near", sent[2000:]) == {""}
        wait_until(lambda: reader.has(3000), "the rest from another replica")
        assert not reader.is_at(OBSERVER)
        assert reader.values == sent
        assert cluster.carried("west", "east") - before > 1000 * VALUE_BYTES
        cluster.start()
        wait_until(lambda: reader.has(3000) and reader.is_at(OBSERVER), "the reader to come back to its region")
        assert reader.values == sent
    finally:
        reader.close()
