"""Snapshots between nodes: the leader serves one in parts, a follower that is behind the log start assembles it."""

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft import commit, election
from isthmus_broker.core.raft import leader as leading
from isthmus_broker.core.raft.events import (
    InstallSnapshot,
    PeerRefused,
    SendResponse,
    SnapshotRead,
    SnapshotReceived,
    WriteSnapshotChunk,
)
from isthmus_broker.core.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from isthmus_broker.core.raft.roles import Download, Follower
from isthmus_broker.core.raft.state import RaftState


def handle_fetch_snapshot(state: RaftState, token: int, request: FetchSnapshotRequest, now_ms: MonotonicMs) -> None:
    """Serve one part. Only the reader in the driver knows the snapshot's size: it responds with POSITION_OUT_OF_RANGE to a part beyond its
    end."""
    error = leading.request_error(state, request.epoch)
    read = None
    leader = state.leader
    if error == ErrorCode.none and leader is not None:
        leading.record_contact(state, leader, request.replica, now_ms)
        if request.snapshot not in state.log.snapshots:
            error = ErrorCode.snapshot_not_found
        elif request.position < 0:
            error = ErrorCode.position_out_of_range
        else:
            size = max(1, min(request.max_bytes, state.config.snapshot_chunk_bytes_max))
            read = SnapshotRead(request.snapshot, request.position, size)
    response = FetchSnapshotResponse(
        error=error,
        epoch=state.epoch,
        leader_id=state.leader_id,
        snapshot=request.snapshot,
        position=request.position,
    )
    state.outbox.send(SendResponse(token, response, read))


def fetch_snapshot(state: RaftState, leader_id: int, download: Download, now_ms: MonotonicMs) -> None:
    request = FetchSnapshotRequest(
        epoch=state.epoch,
        replica=state.config.key,
        snapshot=download.snapshot,
        position=download.position,
        max_bytes=state.config.snapshot_chunk_bytes_max,
    )
    state.send_request(leader_id, request, now_ms)


def handle_fetch_snapshot_response(
    state: RaftState, peer: int, response: FetchSnapshotResponse, now_ms: MonotonicMs
) -> None:
    election.observe(state, response.epoch, response.leader_id, now_ms)
    role = state.role
    if not isinstance(role, Follower) or role.leader_id != peer or response.epoch != state.epoch:
        return
    download = role.download
    if download is None or download.snapshot != response.snapshot:
        return
    end = response.position + len(response.data)
    fits = response.position == download.position < end <= response.size
    if response.error != ErrorCode.none or not fits:
        # The leader may have a newer snapshot by now: the next fetch returns it.
        role.download = None
        state.outbox.note(PeerRefused(peer, "FetchSnapshot", response.error))
        state.requests.back_off(peer, now_ms)
        return
    role.record_response(now_ms, state.config.fetch_timeout_ms)
    state.leader_contact = peer, now_ms
    state.requests.forget_failures()
    download.complete = end == response.size
    state.outbox.write(WriteSnapshotChunk(download.snapshot, download.position, response.data, download.complete))
    download.position = end


def handle_received(state: RaftState, event: SnapshotReceived) -> None:
    """Start again from a complete snapshot. One that the node no longer waits for is ignored; it will be fetched again."""
    role = state.role
    if not isinstance(role, Follower) or role.download is None or not role.download.complete:
        return
    if role.download.snapshot != event.snapshot or event.snapshot.end_offset <= state.high_watermark:
        return
    role.download = None
    state.outbox.write(InstallSnapshot(event.snapshot))
    state.log.install(event.snapshot, state.outbox.mark)
    state.voters.install(event.snapshot.end_offset, event.voters)
    state.bytes_since_snapshot = 0
    commit.load_snapshot(state, event.snapshot)
