"""Snapshots: when one is taken, how a leader serves it, how a follower assembles it."""

from dataclasses import replace
from typing import Any

from isthmus_broker.core.raft.events import (
    Committed,
    DropBefore,
    InstallSnapshot,
    LoadSnapshot,
    SendRequest,
    SendResponse,
    SnapshotRead,
    SnapshotReceived,
    SnapshotTaken,
    TakeSnapshot,
    WriteSnapshotChunk,
)
from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from isthmus_broker.core.raft.types import Recovered, SnapshotId
from isthmus_wire.errors import ErrorCode

from tests.unit.raft.bench import Bench, formatted, key, only, requests, responses, voter_set

TAKEN = SnapshotId(40, 3)


def test_a_snapshot_is_requested_after_enough_bytes_and_at_the_last_applied_offset() -> None:
    bench = Bench(formatted(1), snapshot_after_bytes=40)
    assert bench.append(b"x" * 10).replies[0] == Committed(3, 4)
    replies = bench.append(b"x" * 10).replies
    assert [reply for reply in replies if isinstance(reply, TakeSnapshot)] == [
        TakeSnapshot(SnapshotId(5, 1), voter_set(1))
    ]
    assert not any(isinstance(reply, TakeSnapshot) for reply in bench.append(b"x" * 50).replies)
    bench.feed(SnapshotTaken(SnapshotId(5, 1)))
    assert bench.core.snapshots == (SnapshotId(0, 0), SnapshotId(5, 1))
    assert TakeSnapshot(SnapshotId(7, 1), voter_set(1)) in bench.append(b"x").replies


def test_a_snapshot_is_requested_after_enough_time_if_anything_was_applied() -> None:
    bench = Bench(formatted(1), snapshot_after_ms=1_000)
    assert bench.core.deadline() == 1_000
    assert bench.wait(1_000).replies == (TakeSnapshot(SnapshotId(3, 1), voter_set(1)),)
    bench.feed(SnapshotTaken(SnapshotId(3, 1)))
    assert bench.wait(1_000).replies == ()
    assert bench.core.deadline() is None


def test_the_log_is_kept_from_the_oldest_kept_snapshot_on() -> None:
    bench = Bench(formatted(1), snapshot_after_bytes=1, snapshots_kept=2)
    bench.feed(SnapshotTaken(SnapshotId(3, 1)))
    assert bench.core.log_start == 0
    bench.append()
    ready = bench.feed(SnapshotTaken(SnapshotId(4, 1)))
    assert ready.persist == (DropBefore(SnapshotId(3, 1)),)
    assert bench.core.log_start == 3


def leader() -> Bench:
    """Node 1 leads 2 and 3 with a log that begins at the snapshot 40-3."""
    log = Recovered(log_start=40, log_end=42, epochs=((3, 40),), snapshots=(TAKEN,), voters=((39, voter_set(1, 2, 3)),))
    bench = Bench(log)
    assert LoadSnapshot(TAKEN) in bench.first.replies
    bench.lead()
    return bench


def test_a_replica_below_the_log_start_is_offered_the_snapshot() -> None:
    bench = leader()
    answer = bench.respond(bench.fetch(2, 10, 1))
    assert isinstance(answer, FetchResponse)
    assert answer.snapshot == TAKEN
    assert isinstance(again := bench.respond(bench.fetch(2, 40, 3)), FetchResponse)
    assert again.snapshot is None


def part(bench: Bench, **fields: Any) -> FetchSnapshotRequest:
    defaults = FetchSnapshotRequest(epoch=bench.core.epoch, replica=key(2), snapshot=TAKEN, position=7, max_bytes=100)
    return replace(defaults, **fields)


def test_a_leader_serves_parts_of_the_snapshots_it_has() -> None:
    bench = leader()
    answer = FetchSnapshotResponse(error=ErrorCode.none, epoch=4, leader_id=1, snapshot=TAKEN, position=7)
    ready = bench.request(part(bench))
    assert ready.send_now == (SendResponse(1, answer, SnapshotRead(TAKEN, 7, 100)),)
    other = SnapshotId(41, 3)
    missing = replace(answer, error=ErrorCode.snapshot_not_found, snapshot=other)
    assert responses(bench.request(part(bench, snapshot=other))) == [missing]
    outside = replace(answer, error=ErrorCode.position_out_of_range, position=-1)
    assert responses(bench.request(part(bench, position=-1))) == [outside]
    stale = replace(answer, error=ErrorCode.fenced_leader_epoch)
    assert responses(bench.request(part(bench, epoch=3))) == [stale]


def follower() -> tuple[Bench, SendRequest]:
    """Node 1 follows node 2, which has responded with the snapshot 40-3; its first request for it."""
    bench = Bench(replace(formatted(1, 2), log_end=5, epochs=((1, 0),)))
    ready = bench.request(BeginQuorumEpochRequest(epoch=5, leader_id=2, voter=key(1)))
    offer = FetchResponse(error=ErrorCode.none, epoch=5, leader_id=2, high_watermark=60, snapshot=TAKEN)
    ready = bench.receive(only(requests(ready, FetchRequest)), offer)
    return bench, only(requests(ready, FetchSnapshotRequest))


def chunk(position: int, data: bytes, size: int = 8) -> FetchSnapshotResponse:
    return FetchSnapshotResponse(
        error=ErrorCode.none, epoch=5, leader_id=2, snapshot=TAKEN, size=size, position=position, data=data
    )


def test_a_follower_assembles_a_snapshot_and_continues_from_its_end() -> None:
    bench, sent = follower()
    ready = bench.receive(sent, chunk(0, b"first"))
    assert ready.persist == (WriteSnapshotChunk(TAKEN, 0, b"first", last=False),)
    sent = only(requests(ready, FetchSnapshotRequest))
    assert isinstance(sent.request, FetchSnapshotRequest)
    assert sent.request.position == 5
    ready = bench.receive(sent, chunk(5, b"end"))
    assert ready.persist == (WriteSnapshotChunk(TAKEN, 5, b"end", last=True),)
    assert ready.send_after_persist == ()

    ready = bench.feed(SnapshotReceived(TAKEN, voter_set(1, 2, 3)))
    assert ready.persist == (InstallSnapshot(TAKEN),)
    assert ready.replies == (LoadSnapshot(TAKEN),)
    assert (bench.core.log_start, bench.core.log_end, bench.core.high_watermark) == (40, 40, 40)
    assert bench.core.voters == voter_set(1, 2, 3)
    fetch = only(requests(ready, FetchRequest)).request
    assert isinstance(fetch, FetchRequest)
    assert (fetch.fetch_offset, fetch.last_fetched_epoch) == (40, 3)


def test_a_part_that_does_not_fit_ends_the_attempt() -> None:
    for wrong in (chunk(1, b"first"), chunk(0, b""), chunk(0, b"much too long")):
        bench, sent = follower()
        ready = bench.receive(sent, wrong)
        assert ready.persist == ()
        assert only(requests(bench.wait(20), FetchRequest)).peer == 2


def test_an_unexpected_snapshot_is_not_installed() -> None:
    bench, _ = follower()
    ready = bench.feed(SnapshotReceived(TAKEN, None))
    assert ready.persist == ()
    assert bench.core.log_end == 5


def test_an_install_that_a_crash_interrupted_is_finished_at_the_start() -> None:
    log = Recovered(log_end=5, epochs=((1, 0),), snapshots=(TAKEN,), voters=((39, voter_set(1, 2)),))
    bench = Bench(log)
    assert bench.first.persist[0] == InstallSnapshot(TAKEN)
    assert bench.first.replies[0] == LoadSnapshot(TAKEN)
    assert (bench.core.log_start, bench.core.log_end) == (40, 40)
