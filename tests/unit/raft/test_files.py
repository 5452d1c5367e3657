"""The files and control batches of raft, byte for byte as Apache Kafka 4.3.1 wrote them on a node of its own."""

import struct
from pathlib import Path
from uuid import UUID

import pytest
from isthmus_broker.core.raft.types import Entry, QuorumState, ReplicaKey, SnapshotId, Voter, VoterEndpoint, VoterSet
from isthmus_broker.edge.quorum.quorum_state import (
    QUORUM_STATE,
    DamagedQuorumState,
    read_quorum_state,
    write_quorum_state,
)
from isthmus_broker.edge.quorum.raft_records import RaftRecords, entries, placed
from isthmus_broker.edge.quorum.raft_snapshots import SnapshotFiles
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_model.clocks import WallMs
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import NewRecord, build_batch

DIRECTORY = UUID("dc6a50ad-1cec-45cc-aa69-931f37424827")
DYNAMIC = VoterSet((Voter(ReplicaKey(0, DIRECTORY), (VoterEndpoint("CONTROLLER", "127.0.0.1", 29397),), 0, 1),))
STATIC = VoterSet((Voter(ReplicaKey(0)),))

# First batch of __cluster_metadata-0 with static voters, with voters of its own, and the snapshot `kafka-storage format` made.
STATIC_FIRST = bytes.fromhex(
    "00000000000000000000004f000000010220d3c6f2002000000000000001a1ee7670df000001a1ee7670dfffffffffffffff"
    "ffffffffffffff000000013a0000000800000002260000000000000200000000000200000000000000"
)
DYNAMIC_FIRST = bytes.fromhex(
    "0000000000000000000000a2000000010290ed1854002000000002000001a1ee775d71000001a1ee775d71ffffffffffffff"
    "ffffffffffffff000000033a00000008000000022600000000000002000000000002000000000000001e0000020800000005"
    "0a000000010000820100000408000000066e00000200000000dc6a50ad1cec45ccaa69931f37424827020b434f4e54524f4c"
    "4c45520a3132372e302e302e3172d5000000000100000000"
)
FORMATTED = bytes.fromhex(
    "00000000000000000000009a0000000002d59ad335002000000002000001a1ee7755d8000001a1ee7755d8ffffffffffffff"
    "ffffffffffffff000000032a0000000800000003160000000001a1ee7755cd00001e00000208000000050a00000001000082"
    "0100000408000000066e00000200000000dc6a50ad1cec45ccaa69931f37424827020b434f4e54524f4c4c45520a3132372e"
    "302e302e3172d500000000010000000000000000000000030000003f000000000299568659002000000000000001a1ee7755"
    "e1000001a1ee7755e1ffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)


def timestamp(batch: bytes) -> int:
    found: int = struct.unpack_from(">q", batch, 27)[0]
    return found


def test_the_first_batch_of_a_static_quorum() -> None:
    made = RaftRecords(lambda: WallMs(timestamp(STATIC_FIRST))).leader_change(0, (0,), (0,), None)
    assert placed(Entry(0, 0, 1, made)) == STATIC_FIRST


def test_the_first_batch_of_a_dynamic_quorum_and_back() -> None:
    made = RaftRecords(lambda: WallMs(timestamp(DYNAMIC_FIRST))).leader_change(0, (0,), (0,), DYNAMIC)
    assert placed(Entry(0, 2, 1, made)) == DYNAMIC_FIRST
    assert list(entries(DYNAMIC_FIRST)) == [Entry(0, 2, 1, DYNAMIC_FIRST, DYNAMIC)]


def test_a_change_of_voters_is_read_back() -> None:
    batch = RaftRecords(lambda: WallMs(5)).voters(DYNAMIC)
    assert [entry.voters for entry in entries(batch)] == [DYNAMIC]


def test_a_snapshot_of_nothing_is_what_formatting_makes(tmp_path: Path) -> None:
    footer_at = 166
    header = RaftRecords(lambda: WallMs(timestamp(FORMATTED))).snapshot_header(1795002160589, DYNAMIC)
    footer = RaftRecords(lambda: WallMs(timestamp(FORMATTED[footer_at:]))).snapshot_footer()
    files = SnapshotFiles(SYSTEM, tmp_path)
    files.write(SnapshotId(0, 0), header, (), footer)
    assert files.path(SnapshotId(0, 0)).name == "00000000000000000000-0000000000.checkpoint"
    assert files.path(SnapshotId(0, 0)).read_bytes() == FORMATTED
    assert files.voters(SnapshotId(0, 0)) == DYNAMIC
    assert files.last_timestamp(SnapshotId(0, 0)) == 1795002160589


@pytest.mark.parametrize(
    ("state", "voters", "text"),
    [
        (
            QuorumState(1, 0),
            STATIC,
            (
                '{"clusterId":"","leaderId":0,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
                '"currentVoters":[{"voterId":0}],"data_version":0}'
            ),
        ),
        (
            QuorumState(1, 0),
            None,
            '{"leaderId":0,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
        ),
        (
            QuorumState(7, None, ReplicaKey(3, DIRECTORY)),
            None,
            '{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"3GpQrRzsRcyqaZMfN0JIJw","data_version":1}',
        ),
    ],
)
def test_the_quorum_state_file(tmp_path: Path, state: QuorumState, voters: VoterSet | None, text: str) -> None:
    write_quorum_state(SYSTEM, tmp_path, state, voters)
    assert (tmp_path / QUORUM_STATE).read_text() == text
    assert read_quorum_state(SYSTEM, tmp_path) == state


def test_no_quorum_state_file_is_the_beginning(tmp_path: Path) -> None:
    assert read_quorum_state(SYSTEM, tmp_path) == QuorumState()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"data_version":2}', '{"data_version":1,"leaderId":0}'])
def test_a_damaged_quorum_state_file_is_not_taken_for_the_beginning(tmp_path: Path, text: str) -> None:
    (tmp_path / QUORUM_STATE).write_text(text)
    with pytest.raises(DamagedQuorumState):
        read_quorum_state(SYSTEM, tmp_path)


def batch(value: bytes) -> bytes:
    return build_batch([NewRecord(None, value, 1), NewRecord(None, value, 2)])


def snapshot(files: SnapshotFiles, which: SnapshotId) -> bytes:
    records = RaftRecords(lambda: WallMs(9))
    files.write(which, records.snapshot_header(5, DYNAMIC), [batch(b"a"), batch(b"b")], records.snapshot_footer())
    return files.path(which).read_bytes()


def test_a_snapshot_numbers_its_records_and_gives_back_its_data(tmp_path: Path) -> None:
    files = SnapshotFiles(SYSTEM, tmp_path)
    content = snapshot(files, SnapshotId(8, 2))
    assert [(each.base_offset, each.last_offset, each.epoch) for each in entries(content)] == [
        (0, 2, 2),
        (3, 4, 2),
        (5, 6, 2),
        (7, 7, 2),
    ]
    assert len(list(files.batches(SnapshotId(8, 2)))) == 2
    assert files.read(SnapshotId(8, 2), 10, 20) == (content[10:30], len(content))


def test_a_fetched_snapshot_counts_only_when_it_is_whole(tmp_path: Path) -> None:
    which = SnapshotId(8, 2)
    source = tmp_path / "source"
    source.mkdir()
    content = snapshot(SnapshotFiles(SYSTEM, source), which)
    files = SnapshotFiles(SYSTEM, tmp_path)
    for cut in (len(content) - 1, len(content) - 75, 10):
        files.write_part(which, 0, content[:cut])
        with pytest.raises(CorruptBatch):
            files.receive(which)
        assert files.complete() == ()
    files.write_part(which, 0, content[:100])
    files.write_part(which, 100, content[100:])
    assert files.receive(which) == DYNAMIC
    assert files.path(which).read_bytes() == content


def test_a_start_removes_what_was_being_written(tmp_path: Path) -> None:
    files = SnapshotFiles(SYSTEM, tmp_path)
    snapshot(files, SnapshotId(8, 2))
    snapshot(files, SnapshotId(9, 2))
    files.write_part(SnapshotId(10, 2), 0, b"half")
    files = SnapshotFiles(SYSTEM, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "00000000000000000008-0000000002.checkpoint",
        "00000000000000000009-0000000002.checkpoint",
    ]
    files.delete_before(SnapshotId(9, 2))
    assert files.complete() == (SnapshotId(9, 2),)
