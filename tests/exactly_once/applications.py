"""The applications of a workload, as processes that can be killed, paused, and started again with the same transactional id."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.exactly_once.workload import Workload
from tests.histories import Ending
from tests.java import class_path, compile_java
from tests.kafka import HOME, SHORT_LIVED_JVM
from tests.process import Process

PYTHON: Final = "confluent-kafka"
JAVA: Final = "java"
STREAMS: Final = "streams"
KINDS: Final = (PYTHON, JAVA, STREAMS)
_SOURCES: Final = Path(__file__).parent / "java"
_MAIN: Final = {JAVA: "ConsumeTransformProduce", STREAMS: "Aggregate"}
_JVM: Final = ("-Xmx256M", *SHORT_LIVED_JVM)
_ENDING: Final = re.compile(r"^ending (\S+) (commit|abort)$", re.MULTILINE)


class Application(Process):
    """One instance; `start` again after `kill`."""

    def __init__(self, kind: str, workload: Workload, instance: int, directory: Path, classes: Path) -> None:
        super().__init__(directory / f"{kind}-{instance}.log")
        self._kind = kind
        self._workload = workload
        self._instance = instance
        self._events = directory / f"{kind}-{instance}.events"
        self._directory = directory
        self._classes = classes
        self._lives = 0

    def start(self) -> None:
        """Start without waiting; the seed of its aborts is another one in each life."""
        self._lives += 1
        arguments = [
            *self._workload.arguments(),
            f"instance={self._instance}",
            f"seed={self._instance}.{self._lives}",
            f"events={self._events}",
            f"directory={self._directory / f'state-{self._instance}'}",
        ]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        self._spawn([*self._command(), *arguments], environment, prints_ready=False)

    def _command(self) -> list[str | Path]:
        if self._kind == PYTHON:
            return [sys.executable, "-m", "tests.exactly_once.consume_transform_produce"]
        logging = f"-Dlog4j2.configurationFile={HOME / 'config' / 'log4j2.yaml'}"
        return ["java", *_JVM, logging, "-cp", class_path(self._classes), _MAIN[self._kind]]

    def endings(self) -> list[Ending]:
        """Of all transactions that it began to end, in all its lives."""
        text = self._events.read_text() if self._events.exists() else ""
        return [Ending(name, how == "commit") for name, how in _ENDING.findall(text)]

    @property
    def ended(self) -> bool:
        """Whether it ended although the test did not end it."""
        return self._process is not None and self._process.poll() is not None


def make_applications(kind: str, workload: Workload, count: int, directory: Path) -> list[Application]:
    """So many instances, none of them started."""
    classes = directory / "classes"
    if kind != PYTHON:
        compile_java(_SOURCES / f"{_MAIN[kind]}.java", classes)
    return [Application(kind, workload, number, directory, classes) for number in range(1, count + 1)]


def endings_of(applications: Sequence[Application]) -> Iterator[Ending]:
    for application in applications:
        yield from application.endings()
