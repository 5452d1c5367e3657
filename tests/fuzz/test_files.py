"""Damaged files on disk: a log that opens or says what is wrong, a node that starts or ends with one line, and no tracebacks."""

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from isthmus_broker.core.raft.types import QuorumState
from isthmus_broker.edge.disk.checkpoints import (
    LEADER_EPOCHS,
    RECOVERY_POINTS,
    read_epochs,
    read_offsets,
    write_offsets,
)
from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.drive.quorum_state import DamagedQuorumState, read_quorum_state, write_quorum_state
from isthmus_wire.errors import WireError

from tests.edge.disk.logs import append, new_log, reopened
from tests.fuzz.mutate import damaged
from tests.node import ISTHMUS, Node

SEED: Final = 20_430_003
LOG_ROUNDS: Final = 150
FILE_ROUNDS: Final = 400
END_SECONDS: Final = 60


def _damage_one(directory: Path, draw: random.Random) -> Path:
    """Damage a file, as a disk or an editor might."""
    path = draw.choice(sorted(entry for entry in directory.rglob("*") if entry.is_file()))
    path.write_bytes(damaged(path.read_bytes(), draw))
    return path


def test_a_log_opens_or_says_what_is_wrong(tmp_path: Path) -> None:
    """After a crash every damage is found and cut off, so the log opens, and can be written and read again."""
    whole = new_log(tmp_path / "whole", segment_bytes=2000, internal_segment_bytes=2000, index_interval_bytes=200)
    for number in range(60):
        append(whole, [b"value %d" % number] * 3, producer_id=7, producer_epoch=0, base_sequence=3 * number)
    whole.close(0)
    source = whole.directory
    draw = random.Random(SEED)
    for number in range(LOG_ROUNDS):
        copy = tmp_path / f"copy-{number}" / "t-0"
        shutil.copytree(source, copy)
        path = _damage_one(copy, draw)
        whole.directory = copy
        try:
            log, _ = reopened(whole, clean=False)
            append(log, [b"after"])
            assert log.end_offset > log.log_start_offset
            log.close(0)
        except (DiskFailure, WireError):
            pass
        except Exception as error:
            raise AssertionError(f"seed {SEED}, round {number}: {path.name} is damaged") from error
        shutil.rmtree(copy.parent)


def _each(read: Callable[[], object], path: Path, allowed: tuple[type[Exception], ...]) -> None:
    """Read damaged versions of a file."""
    whole = path.read_bytes()
    draw = random.Random(SEED)
    for number in range(FILE_ROUNDS):
        data = damaged(whole, draw)
        path.write_bytes(data)
        try:
            read()
        except allowed:
            continue
        except Exception as error:
            raise AssertionError(f"seed {SEED}, round {number}: {data!r}") from error


def test_damaged_checkpoints_count_as_missing(tmp_path: Path) -> None:
    write_offsets(tmp_path / RECOVERY_POINTS, {("t", 0): 5, ("u", 3): 77})
    _each(lambda: read_offsets(tmp_path / RECOVERY_POINTS), tmp_path / RECOVERY_POINTS, ())


def test_a_damaged_epoch_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / LEADER_EPOCHS).write_text("0\n3\n0 0\n4 17\n5 90\n")
    _each(lambda: read_epochs(tmp_path), tmp_path / LEADER_EPOCHS, (DiskFailure,))


def test_a_damaged_quorum_state_is_refused(tmp_path: Path) -> None:
    write_quorum_state(tmp_path, QuorumState(5, 1, None), None)
    _each(lambda: read_quorum_state(tmp_path), tmp_path / "quorum-state", (DamagedQuorumState,))


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "quorum-state",
        "recovery-point-offset-checkpoint",
        "leader-epoch-checkpoint",
        "*.log",
    ],
)
def test_a_node_starts_or_ends_with_one_line(name: str, tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.start()
    node.stop()
    draw = random.Random(SEED)
    path = min((tmp_path / "data").rglob(name))
    path.write_bytes(damaged(path.read_bytes(), draw))
    arguments = [argument for key, value in node.settings.items() for argument in ("--set", f"{key}={value}")]
    process = subprocess.Popen([ISTHMUS, "node", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        process.terminate()
        said = process.stderr.read()
        status = process.wait(END_SECONDS)
    finally:
        process.kill()
        process.stdout.close()
        process.stderr.close()
    assert "Traceback" not in said, said[-3000:]
    assert line.startswith("ready ") or (status == 1 and said.strip().splitlines()[-1].startswith("isthmus node: "))
