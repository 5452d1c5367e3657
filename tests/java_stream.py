"""What `tests.stream` is with librdkafka, with Apache Kafka's own producer."""

import atexit
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from tests.java import class_path, compile_java
from tests.kafka import HOME, SHORT_LIVED_JVM, fetch
from tests.stream import GIVE_UP_SECONDS

JAVA_TWO_SECONDS: Final[dict[str, Any]] = {
    "request.timeout.ms": 2000,
    "socket.connection.setup.timeout.ms": 2000,
    "socket.connection.setup.timeout.max.ms": 4000,
    "reconnect.backoff.ms": 500,
    "retry.backoff.max.ms": 200,
}
"""A producer that times out after two seconds, and requests metadata elsewhere before it reconnects."""
_SOURCE: Final = Path(__file__).with_name("JavaStream.java")
_JVM: Final = ("-Xmx256M", *SHORT_LIVED_JVM)


class JavaStream:
    """A producer of Apache Kafka's client that sends a record every few milliseconds until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        """`settings` override the client's defaults."""
        chosen = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0} | settings
        logging = f"-Dlog4j2.configurationFile={HOME / 'config' / 'log4j2.yaml'}"
        self._command = ["java", *_JVM, logging, "-cp", class_path(_classes()), "JavaStream", topic]
        self._command += [f"{name}={value}" for name, value in chosen.items()]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        environment["KAFKA_LOG_LEVEL"] = "ERROR"
        self._process = subprocess.Popen(
            self._command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def seconds_until_next(self, fault: Callable[[], object] = lambda: None) -> float:
        """The time from a fault to the acknowledgement of the first record sent after it."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began = time.perf_counter()
        fault()
        self._process.stdin.write(b"\n")
        ready, _, _ = select.select([self._process.stdout], [], [], GIVE_UP_SECONDS)
        if not ready or self._process.stdout.readline() != b"\n":
            raise RuntimeError("nothing was acknowledged")
        return time.perf_counter() - began


@cache
def _classes() -> Path:
    fetch()
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    compile_java(_SOURCE, Path(folder.name))
    return Path(folder.name)
