"""Single operations of a disk that fail: what goes offline, and what is left for the next start."""

from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import pytest
from isthmus_broker.edge.storage.files import DiskFailure, FilePool
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.recovery import create_log
from isthmus_model.clocks import MonotonicMs

from tests.edge.storage.logs import NOW, append, config
from tests.sim.power.disk import SimDisk

HERE = Path("/d0")
KEY = ("t", 0)
CONFIG: Final = config(segment_bytes=600, index_interval_bytes=100)


def created(files: FileSystem) -> Log:
    """A log with a durable directory."""
    log = create_log(FilePool(files), HERE / "t-0", *KEY, CONFIG, UUID(int=9), now_ms=MonotonicMs(NOW))
    log.flush_now()
    files.sync_path(Path("/"))
    return log


def test_a_producer_snapshot_that_cannot_be_removed_fails_the_directory() -> None:
    """The error was not that of a directory: it ended the node."""
    disk = SimDisk(Random(1))
    log = created(disk.start())
    append(log, [b"x"])
    append(log, [b"y"])
    log.snapshot_producers()
    disk.fail("entry", under=HERE / "t-0" / "00000000000000000002.snapshot")
    with pytest.raises(DiskFailure):
        log.truncate_to(1, MonotonicMs(NOW))
