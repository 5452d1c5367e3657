"""Damaged files on disk: logs open or report an error, nodes start or exit with a one-line message, without tracebacks."""

import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from isthmus_broker.core.metadata.schema import TopicRecord
from isthmus_broker.core.raft.types import QuorumState, SnapshotId
from isthmus_broker.edge.controller.controller import batch_of, records_of
from isthmus_broker.edge.quorum.quorum_state import DamagedQuorumState, read_quorum_state, write_quorum_state
from isthmus_broker.edge.quorum.raft_records import RaftRecords
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.checkpoints import (
    LEADER_EPOCHS,
    RECOVERY_POINTS,
    read_epochs,
    read_offsets,
    read_topic_id,
    write_offsets,
    write_topic_id,
)
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_broker.edge.storage.log_dir import (
    Inconsistent,
    LogDir,
    MetaProperties,
    NotFormatted,
    read_meta,
    write_meta,
)
from isthmus_model.clocks import MonotonicMs, WallMs
from isthmus_wire.errors import WireError

from tests.edge.storage.logs import append, new_log, reopened
from tests.fuzz.mutate import damaged
from tests.node import Node
from tests.process import ISTHMUS
from tests.system.ledger import wait_until

SEED: Final = 20_430_003
LOG_ROUNDS: Final = 150
FILE_ROUNDS: Final = 400
NODE_ROUNDS: Final = 2
END_SECONDS: Final = 60


def _damage_one(directory: Path, draw: random.Random) -> Path:
    """Damage a file, as a disk or an editor might."""
    path = draw.choice(sorted(entry for entry in directory.rglob("*") if entry.is_file()))
    path.write_bytes(damaged(path.read_bytes(), draw))
    return path


def test_a_damaged_log_opens_or_reports_an_error(tmp_path: Path) -> None:
    """After a crash every damage is detected and truncated, so that the log opens and can be appended to and read."""
    whole = new_log(tmp_path / "whole", segment_bytes=2000, internal_segment_bytes=2000, index_interval_bytes=200)
    for number in range(60):
        append(whole, [b"value %d" % number] * 3, producer_id=7, producer_epoch=0, base_sequence=3 * number)
    whole.close(MonotonicMs(0))
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
            log.close(MonotonicMs(0))
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
    write_offsets(SYSTEM, tmp_path / RECOVERY_POINTS, {("t", 0): 5, ("u", 3): 77})
    _each(lambda: read_offsets(SYSTEM, tmp_path / RECOVERY_POINTS), tmp_path / RECOVERY_POINTS, ())


def test_a_damaged_epoch_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / LEADER_EPOCHS).write_text("0\n3\n0 0\n4 17\n5 90\n")
    _each(lambda: read_epochs(SYSTEM, tmp_path), tmp_path / LEADER_EPOCHS, (DiskFailure,))


def test_a_damaged_quorum_state_is_refused(tmp_path: Path) -> None:
    write_quorum_state(SYSTEM, tmp_path, QuorumState(5, 1, None), None)
    _each(lambda: read_quorum_state(SYSTEM, tmp_path), tmp_path / "quorum-state", (DamagedQuorumState,))


def test_damaged_meta_properties_are_refused(tmp_path: Path) -> None:
    write_meta(SYSTEM, tmp_path, MetaProperties("aXN0aG11cy1vcmFjbGUtMA", 1, UUID(int=2**100)))
    _each(lambda: read_meta(SYSTEM, tmp_path), tmp_path / "meta.properties", (Inconsistent, NotFormatted))


def test_a_damaged_topic_id_is_refused(tmp_path: Path) -> None:
    write_topic_id(SYSTEM, tmp_path, UUID(int=2**100))
    _each(lambda: read_topic_id(SYSTEM, tmp_path), tmp_path / "partition.metadata", (DiskFailure,))


def test_a_damaged_clean_marker_counts_as_present(tmp_path: Path) -> None:
    """As in Kafka, the existence of the file counts, not its content."""
    directory = LogDir(SYSTEM, tmp_path)
    directory.write_clean_marker(7)

    def read() -> None:
        directory.was_clean = False
        directory.remove_clean_marker()
        assert directory.was_clean

    _each(read, tmp_path / ".kafka_cleanshutdown", ())


def test_damaged_snapshots_of_the_metadata_are_refused(tmp_path: Path) -> None:
    files, snapshot = SnapshotFiles(SYSTEM, tmp_path), SnapshotId(10, 2)
    records = RaftRecords(lambda: WallMs(0))
    topics = [TopicRecord(name=f"topic-{number}", topic_id=UUID(int=number + 1)) for number in range(20)]
    files.write(snapshot, records.snapshot_header(0, None), [batch_of(topics, WallMs(0))], records.snapshot_footer())

    def read() -> None:
        files.last_timestamp(snapshot)
        files.voters(snapshot)
        list(records_of(files.batches(snapshot)))

    _each(read, files.path(snapshot), (WireError,))


SMALL_FILES: Final = (
    "data/meta.properties",
    "data/.kafka_cleanshutdown",
    "data/recovery-point-offset-checkpoint",
    "data/log-start-offset-checkpoint",
    "data/replication-offset-checkpoint",
    "data/t-0/leader-epoch-checkpoint",
    "data/t-0/partition.metadata",
    "data/t-0/*.snapshot",
    "data/t-0/*.log",
    "data/t-0/*.timeindex",
    "data/__cluster_metadata-0/quorum-state",
    "data/__cluster_metadata-0/leader-epoch-checkpoint",
    "data/__cluster_metadata-0/*.checkpoint",
    "data/__cluster_metadata-0/*.log",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A node after a clean shutdown, with a topic, records and a snapshot of its metadata."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "300"}
    node = Node(tmp_path_factory.mktemp("whole"), settings)
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 2})
    for number in range(3):
        for created in admin.create_topics([NewTopic("t" if number == 0 else f"t{number}", 1, 1)]).values():
            created.result(30)
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "log_level": 2})
    producer.produce("t", b"x", partition=0)
    assert producer.flush(60) == 0
    wait_until(lambda: any((node.directory / "data").glob("*/*.checkpoint")), "a snapshot")
    node.stop()
    return node


@pytest.mark.parametrize("name", SMALL_FILES)
def test_a_node_starts_or_exits_with_a_one_line_message(name: str, whole: Node, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    for number in range(NODE_ROUNDS):
        directory = tmp_path / str(number)
        shutil.copytree(whole.directory, directory)
        path = max(directory.glob(name))
        path.write_bytes(damaged(path.read_bytes(), draw))
        line, said, status = _outcome({**whole.settings, "log.dirs": str(directory / "data")})
        assert "Traceback" not in said, said[-3000:]
        assert line.startswith("ready ") or (status == 1 and said.strip().splitlines()[-1].startswith("isthmus node: "))


def _outcome(settings: Mapping[str, str]) -> tuple[str, str, int]:
    """The standard output of a node, its standard error, and its exit status."""
    arguments = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    process = subprocess.Popen([ISTHMUS, "node", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    give_up = threading.Timer(END_SECONDS, process.kill)
    give_up.start()
    try:
        line = process.stdout.readline()
        process.terminate()
        said = process.stderr.read()
        return line, said, process.wait(END_SECONDS)
    finally:
        give_up.cancel()
        process.kill()
        process.stdout.close()
        process.stderr.close()
