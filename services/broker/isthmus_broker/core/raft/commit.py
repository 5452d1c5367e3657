"""Consequences of the high watermark: delivering committed entries, completing appends, requesting snapshots."""

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.raft.events import (
    Appended,
    Committed,
    DropBefore,
    HighWatermarkAdvanced,
    LeaderChanged,
    LoadSnapshot,
    TakeSnapshot,
    VoterChanged,
)
from isthmus_broker.core.raft.roles import Leader
from isthmus_broker.core.raft.state import RaftState
from isthmus_broker.core.raft.types import SnapshotId


def advance(state: RaftState, high_watermark: int, now_ms: MonotonicMs) -> None:
    """Raise the high watermark. It never falls; a lagging leader or a late response may carry a lower value."""
    assert high_watermark <= state.log.end
    if high_watermark > state.high_watermark:
        state.high_watermark = high_watermark
        state.outbox.note(HighWatermarkAdvanced(high_watermark))
        deliver(state, now_ms)


def deliver(state: RaftState, now_ms: MonotonicMs) -> None:
    """Deliver entries that are committed and durable here, then complete the requests that wait for them."""
    end = min(state.high_watermark, state.log.durable_end)
    if end > state.delivered:
        state.outbox.reply(Committed(state.delivered, end))
        state.delivered = end
        if state.leader is not None:
            _complete_requests(state, state.leader)
    announce_leader(state)
    maybe_take_snapshot(state, now_ms)


def announce_leader(state: RaftState) -> None:
    """Report the leader to the state machine. A new leader reports itself only after all earlier entries have been delivered."""
    leader = state.leader
    is_ready = leader is None or state.delivered > leader.epoch_start
    if is_ready and state.announced != (state.epoch, state.leader_id):
        state.announced = (state.epoch, state.leader_id)
        state.outbox.reply(LeaderChanged(state.epoch, state.leader_id))


def maybe_take_snapshot(state: RaftState, now_ms: MonotonicMs) -> None:
    if state.snapshot_requested or state.delivered <= _snapshot_end(state):
        return
    config = state.config
    if (
        state.bytes_since_snapshot < config.snapshot_after_bytes
        and now_ms < state.snapshot_requested_ms + config.snapshot_after_ms
    ):
        return
    state.snapshot_requested = True
    state.snapshot_requested_ms = now_ms
    state.bytes_since_snapshot = 0
    snapshot = SnapshotId(state.delivered, state.log.epoch_before(state.delivered))
    state.outbox.reply(TakeSnapshot(snapshot, state.voters.at(state.delivered)))


def snapshot_deadline(state: RaftState) -> int | None:
    if state.snapshot_requested or state.delivered <= _snapshot_end(state):
        return None
    return state.snapshot_requested_ms + state.config.snapshot_after_ms


def snapshot_taken(state: RaftState, snapshot: SnapshotId) -> None:
    """Record a new snapshot and drop the log before the oldest retained one. A newer snapshot may have been installed meanwhile."""
    if snapshot.end_offset <= _snapshot_end(state) or not state.snapshot_requested:
        return
    state.snapshot_requested = False
    state.log.add_snapshot(snapshot)
    kept = state.log.snapshots[-state.config.snapshots_kept :]
    if kept[0] != state.log.snapshots[0]:
        state.log.drop_before(kept[0])
        state.voters.drop_before(kept[0].end_offset)
        state.outbox.write(DropBefore(kept[0]))


def load_snapshot(state: RaftState, snapshot: SnapshotId) -> None:
    """Continue from a snapshot, at startup or after one has been installed."""
    state.high_watermark = max(state.high_watermark, snapshot.end_offset)
    state.delivered = snapshot.end_offset
    state.snapshot_requested = False
    state.outbox.reply(LoadSnapshot(snapshot))


def _snapshot_end(state: RaftState) -> int:
    latest = state.log.latest_snapshot()
    return latest.end_offset if latest else 0


def _complete_requests(state: RaftState, leader: Leader) -> None:
    while leader.appends and leader.appends[0].last_offset < state.delivered:
        append = leader.appends.popleft()
        state.outbox.reply(Appended(append.token, append.base_offset))
    if leader.change is not None and leader.change.offset < state.delivered:
        state.outbox.reply(VoterChanged(leader.change.token))
        leader.change = None
