"""Programs on Apache Kafka's own client, for what its performance tools do not measure; compiled once per run."""

import atexit
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.java import class_path, compile_java
from tests.kafka import HOME, fetch

_SOURCES: Final = Path(__file__).parent / "java"
# As java_load gives the performance tools.
_JVM: Final = ("-Xmx512M", "-server", "-XX:+UseG1GC")
_TIMEOUT_SECONDS: Final = 300


def run(program: str, *arguments: object) -> list[float]:
    """The numbers that it prints."""
    logging = f"-Dlog4j2.configurationFile={HOME / 'config' / 'log4j2.yaml'}"
    finished = subprocess.run(
        ["java", *_JVM, logging, "-cp", class_path(_classes()), program, *map(str, arguments)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_TIMEOUT_SECONDS,
    )
    return [float(word) for word in finished.stdout.split()]


@cache
def _classes() -> Path:
    fetch()
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    for source in sorted(_SOURCES.glob("*.java")):
        compile_java(source, Path(folder.name))
    return Path(folder.name)
