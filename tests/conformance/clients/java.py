"""Apache Kafka's own tools as a user runs them: one JVM each, so tests make every run count."""

import os
import subprocess
from typing import Final

from tests.kafka import HOME

TIMEOUT_SECONDS: Final = 120


def run(tool: str, *arguments: str, stdin: str = "", status: int = 0) -> list[str]:
    """The lines of a tool's standard output, without trailing blanks and empty lines."""
    finished = subprocess.run(
        [HOME / "bin" / f"{tool}.sh", *arguments],
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


def words(lines: list[str]) -> list[list[str]]:
    """The columns of a table."""
    return [line.split() for line in lines]
