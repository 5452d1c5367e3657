"""A workload that runs on a cluster: its input is fed, its applications run, and its output is read along."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.exactly_once.applications import STREAMS, endings_of, make_applications
from tests.exactly_once.check import Outcome, exactly_once_violations
from tests.exactly_once.feeder import PAUSE_SECONDS, Feeder
from tests.exactly_once.open_transactions import await_none_open
from tests.exactly_once.reader import Reader, committed_offsets, end_offsets, read_all
from tests.exactly_once.workload import Workload
from tests.histories import Partition, violations
from tests.system.ledger import WAIT_SECONDS, wait_until

INSTANCES: Final = 2
RECORDS_A_ROUND: Final = 400
_ENDED_BY_SIGTERM: Final = (0, 143, -15)
"""Applications exit, JVMs report the signal, and a program that still starts is ended by it."""
_PAUSE_SECONDS: Final = 0.1
TRANSACTION_TIMEOUT_MS: Final = 5_000
"""An application that was killed holds back the readers of committed records until then."""


def workload_of(kind: str, bootstrap: str, name: str, *, replicas: int = 3) -> Workload:
    """What applications of that kind do, with transactions that time out soon."""
    return Workload(
        bootstrap=bootstrap,
        kind="aggregate" if kind == STREAMS else "transform",
        name=name,
        replicas=replicas,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )


class Load:
    """`go_on` waits for progress, `check` ends it and checks what it left."""

    def __init__(self, kind: str, workload: Workload, directory: Path, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.workload = workload
        self.inputs: list[Partition] = [(workload.input, number) for number in range(workload.partitions)]
        self.outputs: list[Partition] = [(workload.output, number) for number in range(workload.partitions)]
        self.applications = make_applications(kind, workload, INSTANCES, directory)
        self._create_topics()
        self._reader = Reader(workload.bootstrap, self.outputs)
        self._feeder = Feeder(workload, self.progress, pause_seconds)

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.workload.bootstrap, "log_level": 2})
        topics = [
            NewTopic(topic, self.workload.partitions, self.workload.replicas)
            for topic in (self.workload.input, self.workload.output)
        ]
        for created in admin.create_topics(topics, operation_timeout=30).values():
            created.result(60)

    def progress(self) -> int:
        """Records of output that a consumer of committed records got."""
        return len(self._reader.records)

    def transactions(self) -> int:
        """Transactions that the applications began to commit, if they report them."""
        return sum(ending.commits for ending in endings_of(self.applications))

    def go_on(self, count: int = RECORDS_A_ROUND) -> None:
        """Until so many more records are committed."""
        target = self.progress() + count
        wait_until(
            lambda: self.progress() >= target or bool(self._failures()),
            f"{target} committed records of output",
            lambda: f"{self.progress()} of {self._feeder.acknowledged}",
        )
        assert not self._failures(), self._failures()[:3]

    def check(self) -> None:
        """Every input record had its effect exactly once, and no transaction stays open."""
        self._feeder.finish()
        bootstrap = self.workload.bootstrap
        self._await_end(end_offsets(bootstrap, self.inputs))
        self.stop()
        still_open = await_none_open(bootstrap, self._written_partitions())
        assert violations(still_open) == []  # the output ends where one begins
        self._reader.close()
        outcome = Outcome(
            input=read_all(bootstrap, self.inputs),
            output=read_all(bootstrap, self.outputs),
            polled=self._reader.records,
            offsets=self._committed() or {},
            endings=list(endings_of(self.applications)),
        )
        assert not self._failures(), self._failures()[:3]
        found = exactly_once_violations(self.workload, outcome)
        assert found == [], f"{len(found)} violations, the first: {found[:5]}"

    def _await_end(self, ends: Mapping[Partition, int]) -> None:
        """Until the applications have committed all, or had time enough to: what is missing then is a violation."""
        count = sum(ends.values())
        deadline = time.monotonic() + WAIT_SECONDS
        while self._committed() != ends or self.progress() < count:
            if self._failures() or time.monotonic() > deadline:
                return
            time.sleep(_PAUSE_SECONDS)

    def stop(self) -> None:
        """SIGTERM to every application; each ends its transaction first."""
        for application in self.applications:
            status = application.stop()
            assert status in _ENDED_BY_SIGTERM, application.log()[-4000:]

    def close(self) -> None:
        """End everything, in whatever state it is."""
        self._feeder.stop()
        for application in self.applications:
            application.kill()
        self._reader.close()

    def _failures(self) -> list[str]:
        ended = [application.log()[-4000:] for application in self.applications if application.ended]
        return [*self._feeder.failures, *self._reader.errors, *ended]

    def _committed(self) -> dict[Partition, int] | None:
        return committed_offsets(self.workload.bootstrap, self.workload.name, self.inputs)

    def _written_partitions(self) -> list[Partition]:
        """Of every topic that the applications write to: outputs, offsets, and the internal topics of Kafka Streams."""
        topics = (
            AdminClient({"bootstrap.servers": self.workload.bootstrap, "log_level": 2}).list_topics(timeout=30).topics
        )
        own = (self.workload.name, "__consumer_offsets")
        return [(name, number) for name, topic in topics.items() if name.startswith(own) for number in topic.partitions]


@contextmanager
def running_load(
    kind: str, workload: Workload, directory: Path, pause_seconds: float = PAUSE_SECONDS
) -> Iterator[Load]:
    """The load during the block, and the check after it."""
    load = Load(kind, workload, directory, pause_seconds)
    try:
        for application in load.applications:
            application.start()
        load.go_on()
        yield load
        load.check()
    finally:
        load.close()
