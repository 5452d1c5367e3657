"""Replication on followers and observers: what to fetch next, from which node, and when to truncate the local log."""

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft import commit, election
from isthmus_broker.core.raft import leader as leading
from isthmus_broker.core.raft.events import LogTruncated, PeerRefused, TruncateTo
from isthmus_broker.core.raft.messages import FetchRequest, FetchResponse
from isthmus_broker.core.raft.roles import Download, Follower, Unattached
from isthmus_broker.core.raft.snapshots import fetch_snapshot
from isthmus_broker.core.raft.state import RaftState
from isthmus_broker.core.raft.types import Entry, EpochEnd, SnapshotId


def poll(state: RaftState, now_ms: MonotonicMs) -> None:
    """Start an election if the leader has been unreachable for too long, otherwise keep exactly one fetch in flight."""
    role = state.role
    if isinstance(role, Unattached):
        _find_leader(state, now_ms)
    elif isinstance(role, Follower):
        if now_ms < role.fetch_deadline_ms:
            _fetch(state, role, now_ms)
        elif state.may_elect:
            election.become_prospective(state, now_ms)
        else:
            # An observer cannot start an election: it queries other nodes until one names another leader, or this one responds again.
            role.has_fetched = False
            _fetch(state, role, now_ms)
            _find_leader(state, now_ms, unresponsive=role.leader_id)


def _fetch(state: RaftState, role: Follower, now_ms: MonotonicMs) -> None:
    if not state.requests.is_free(role.leader_id, now_ms):
        return
    if role.download is None:
        state.send_request(role.leader_id, _fetch_request(state), now_ms, durable=True)
    elif not role.download.complete:
        fetch_snapshot(state, role.leader_id, role.download, now_ms)


def _find_leader(state: RaftState, now_ms: MonotonicMs, unresponsive: int | None = None) -> None:
    """Fetch from any node but the `unresponsive` one. It responds with the leader it knows of, or with entries if it is the leader.

    One node is queried at a time, but a slow one does not delay the others.
    """
    peers = sorted({*state.other_voters(), *state.config.bootstrap} - {state.node_id, unresponsive})
    waiting = [peer for peer in peers if not state.requests.is_free(peer, now_ms)]
    if any(not state.requests.is_slow(peer, now_ms, state.config.query_patience_ms) for peer in waiting):
        return
    free = [peer for peer in peers if peer not in waiting]
    if free:
        peer = free[state.random.randrange(len(free))]
        state.send_request(peer, _fetch_request(state), now_ms, durable=True)


def _fetch_request(state: RaftState) -> FetchRequest:
    return FetchRequest(
        epoch=state.epoch,
        replica=state.config.key,
        fetch_offset=state.log.end,
        last_fetched_epoch=state.log.last_epoch,
        high_watermark=state.high_watermark,
        max_wait_ms=state.config.fetch_wait_max_ms,
        max_bytes=state.config.fetch_bytes_max,
    )


def deadline(state: RaftState, now_ms: MonotonicMs) -> int | None:
    role = state.role
    if isinstance(role, Follower) and now_ms < role.fetch_deadline_ms:
        return role.fetch_deadline_ms
    return state.requests.slow_deadline(now_ms, state.config.query_patience_ms)


def handle_fetch_response(state: RaftState, peer: int, response: FetchResponse, now_ms: MonotonicMs) -> None:
    election.observe(state, response.epoch, response.leader_id, now_ms)
    role = state.role
    if response.error != ErrorCode.none:
        _refused(state, peer, "Fetch", response.error, now_ms)
        return
    if not isinstance(role, Follower) or role.leader_id != peer or response.epoch != state.epoch:
        state.requests.back_off(peer, now_ms)
        return
    role.record_response(now_ms, state.config.fetch_timeout_ms)
    state.leader_contact = peer, now_ms
    if response.diverging is not None:
        is_useful = _truncate(state, response.diverging)
    elif response.snapshot is not None:
        is_useful = _begin_download(state, role, response.snapshot)
    else:
        is_useful = _append(state, response.entries)
    if not is_useful:
        state.requests.back_off(peer, now_ms)
        return
    state.requests.forget_failures()
    if response.diverging is None and response.snapshot is None:
        commit.advance(state, min(response.high_watermark, state.log.end), now_ms)


def _refused(state: RaftState, peer: int, request: str, error: ErrorCode, now_ms: MonotonicMs) -> None:
    """Pause before the next attempt, unless the response has already changed the leader."""
    state.outbox.note(PeerRefused(peer, request, error))
    state.requests.back_off(peer, now_ms)


def _truncate(state: RaftState, diverging: EpochEnd) -> bool:
    """Remove entries that cannot be in the leader's log. Return False for a response that makes no progress possible."""
    local = state.log.end_of_epoch(diverging.epoch)
    offset = min(local.end_offset, diverging.end_offset) if local.epoch == diverging.epoch else local.end_offset
    if offset < state.log.start or offset >= state.log.end:
        return False
    assert offset >= state.high_watermark, f"committed entries from {offset} on are not in the leader's log"
    state.outbox.note(LogTruncated(offset, state.log.end))
    state.outbox.write(TruncateTo(offset))
    state.log.truncate_to(offset)
    state.voters.truncate_to(offset)
    return True


def _begin_download(state: RaftState, role: Follower, snapshot: SnapshotId) -> bool:
    if snapshot.end_offset <= state.high_watermark:
        return False
    role.download = Download(snapshot)
    return True


def _append(state: RaftState, entries: tuple[Entry, ...]) -> bool:
    """Append entries that continue the log; drop the rest of a response that does not."""
    for entry in entries:
        follows = entry.base_offset == state.log.end and entry.last_offset >= entry.base_offset
        if not follows or not state.log.last_epoch <= entry.epoch <= state.epoch:
            return False
        leading.write_entry(state, entry)
    return True
