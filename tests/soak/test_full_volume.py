"""A volume that is really full. It needs root, so `make soak` runs it; `make test` uses resource limits instead."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.system.stretched import Stretched, running
from tests.system.test_faults import ROUNDS, TOPOLOGY, load

VOLUME_MB: Final = 256
NODES: Final = ("west-1", "east-1", "south-1")


@contextmanager
def volume(at: Path) -> Iterator[Path]:
    """Mount a separate file system in memory."""
    at.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={VOLUME_MB}m", "tmpfs", at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


def fill(at: Path) -> Path:
    """Create a file that uses all free space, to the last byte."""
    filler = at / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretched]:
    """A cluster whose nodes each have a separate volume."""
    directory = tmp_path_factory.mktemp("full")
    with ExitStack() as volumes:
        for node in NODES:
            volumes.enter_context(volume(directory / node))
        yield volumes.enter_context(running(directory, TOPOLOGY))


def test_the_volume_of_a_leader_is_full(cluster: Stretched) -> None:
    with load(cluster) as running_load:
        for _ in range(ROUNDS):
            full = running_load.leader()
            filler = fill(cluster.site.directory / full)
            cluster.await_dead(full)
            running_load.go_on()
            filler.unlink()
            cluster.start()
            running_load.await_whole()
