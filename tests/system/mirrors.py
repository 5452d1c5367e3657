"""A mirror as a process, and what tests want to know of its copies."""

import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from isthmus_client.client import Client, parse_bootstrap
from isthmus_client.metadata import TopicPartition
from isthmus_wire.records import Record, batches, iterate_records

from tests.node import ISTHMUS
from tests.system.mirroring import log_of

READY_SECONDS = 30
STOP_SECONDS = 30


class MirrorProcess:
    """`start` again after `kill` or `stop`."""

    def __init__(self, directory: Path, clusters: Mapping[str, str], settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log_path = directory / "mirror.log"
        self.url = ""
        self._file = directory / "mm2.properties"
        lines = {"clusters": ", ".join(clusters)}
        lines |= {f"{alias}.bootstrap.servers": bootstrap for alias, bootstrap in clusters.items()}
        self._file.write_text("".join(f"{key} = {value}\n" for key, value in (lines | dict(settings)).items()))
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it says that it has begun."""
        assert self._process is None
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            [ISTHMUS, "mirror", "-c", self._file, "--http", "127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        give_up = threading.Timer(READY_SECONDS, self._process.kill)
        give_up.start()
        try:
            line = self._process.stdout.readline()
        finally:
            give_up.cancel()
        assert line.startswith("ready http://"), self.log_path.read_text()[-4000:]
        self.url = line.split()[1]

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Pause it, or let it go on."""
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        finally:
            process.kill()
            assert process.stdout is not None
            assert self._log is not None
            process.stdout.close()
            self._log.close()


@contextmanager
def running_mirror(
    directory: Path, clusters: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[MirrorProcess]:
    """A mirror that ends with the block."""
    mirror = MirrorProcess(directory, clusters, settings)
    mirror.start()
    try:
        yield mirror
    finally:
        mirror.stop()


async def records_of(client: Client, partition: TopicPartition) -> list[Record]:
    """Every record of a partition, markers left out."""
    await client.know({partition.topic})
    data = await log_of(client, partition)
    return [record for at, header in batches(data) if not header.is_control for record in iterate_records(data, at)]


async def contents(bootstrap: str, partitions: list[TopicPartition]) -> list[list[Record]]:
    """Of several partitions."""
    async with Client(parse_bootstrap(bootstrap)) as client:
        return [await records_of(client, partition) for partition in partitions]


def without_offsets(records: list[Record]) -> list[Record]:
    """What must be the same on both sides."""
    return [record._replace(offset=0) for record in records]
