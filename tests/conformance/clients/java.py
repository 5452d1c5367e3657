"""Apache Kafka's own tools as a user runs them: one JVM each, so tests make every run count."""

import os
import subprocess
from typing import Final

from tests.kafka import HOME

TIMEOUT_SECONDS: Final = 120
_CLASSES: Final = {
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
"""Tools that are run by their class."""
_JVM: Final = ("-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def run(tool: str, *arguments: str, stdin: str = "", status: int = 0) -> list[str]:
    """The lines of a tool's standard output, without trailing blanks and empty lines."""
    finished = subprocess.run(
        [*_command(tool), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")},
        check=False,
    )
    assert finished.returncode == status, (
        f"{tool} ended with {finished.returncode}:\n{finished.stdout}\n{finished.stderr}"
    )
    return [line.rstrip() for line in finished.stdout.splitlines() if line.strip()]


def _command(tool: str) -> list[str]:
    if tool in _CLASSES:
        return ["java", *_JVM, "-cp", f"{HOME}/libs/*", _CLASSES[tool]]
    return [str(HOME / "bin" / f"{tool}.sh")]


def words(lines: list[str]) -> list[list[str]]:
    """The columns of a table."""
    return [line.split() for line in lines]
