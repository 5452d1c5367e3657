"""MirrorMaker 2 of Apache Kafka, as a process: its jars by Maven coordinates, its settings, its end."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from bench.brokers import ROOT, STOP_SECONDS
from tests.kafka import VERSION, copy_jars

HOME: Final = ROOT / ".tools" / f"mirror-maker-{VERSION}"
_COORDINATES: Final = (
    ("org.apache.kafka", "connect-mirror", VERSION),
    ("org.apache.kafka", "connect-runtime", VERSION),
    ("org.apache.logging.log4j", "log4j-core", "2.25.4"),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
# What the stock script gives it.
_JVM: Final = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")


def fetch() -> Path:
    """The jars; nothing is done when they are there."""
    libraries = HOME / "libs"
    complete = HOME / "complete"
    if not complete.exists():
        libraries.mkdir(parents=True, exist_ok=True)
        copy_jars(libraries, _COORDINATES)
        complete.touch()
    return libraries


class MirrorMaker:
    """One flow from a source to a target, with its own defaults but for what a cluster of one broker needs."""

    def __init__(self, directory: Path, source: str, target: str, alias: str, topics: str) -> None:
        self._directory = directory
        self._settings = {
            "clusters": f"{alias}, target",
            f"{alias}.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            f"{alias}->target.enabled": "true",
            f"{alias}->target.topics": topics,
            f"target->{alias}.enabled": "false",
            "tasks.max": "2",
            "sync.topic.acls.enabled": "false",
            **dict.fromkeys(
                (
                    "replication.factor",
                    "checkpoints.topic.replication.factor",
                    "heartbeats.topic.replication.factor",
                    "offset-syncs.topic.replication.factor",
                    "offset.storage.replication.factor",
                    "status.storage.replication.factor",
                    "config.storage.replication.factor",
                ),
                "1",
            ),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process; it begins to copy at once."""
        self._directory.mkdir(parents=True)
        properties = self._directory / "mm2.properties"
        properties.write_text("".join(f"{key} = {value}\n" for key, value in self._settings.items()))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        with (self._directory / "out").open("ab") as out:
            self._process = subprocess.Popen(
                ["java", *_JVM, "-cp", f"{fetch()}/*", _MAIN, str(properties)], stdout=out, stderr=out, env=environment
            )

    def stop(self) -> None:
        """SIGTERM, and wait."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


if __name__ == "__main__":
    fetch()
