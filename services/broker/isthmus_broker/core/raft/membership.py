"""Adding, removing and updating voters, one at a time (KIP-853)."""

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft import leader as leading
from isthmus_broker.core.raft.events import AddVoter, ChangeRejected, RemoveVoter, SendResponse
from isthmus_broker.core.raft.messages import UpdateVoterRequest, UpdateVoterResponse
from isthmus_broker.core.raft.roles import Follower, Leader, PendingVoterChange
from isthmus_broker.core.raft.state import RaftState
from isthmus_broker.core.raft.types import ReplicaKey, VoterSet

CAUGHT_UP_WITHIN_MS = 3_600_000
"""Refuse a voter that would hold up commits: it must have been caught up within the last hour, and still fetch."""


def handle_add(state: RaftState, event: AddVoter, now_ms: MonotonicMs) -> None:
    voters = state.voters.current
    error = _change_error(state)
    if error == ErrorCode.none:
        if voters.find(event.voter.key.node_id) is not None:
            error = ErrorCode.duplicate_voter
        elif event.voter.max_kraft_version < 1:
            error = ErrorCode.invalid_request
        elif not _is_caught_up(state, event.voter.key, now_ms):
            error = ErrorCode.request_timed_out
    _change_or_refuse(state, event.token, error, voters.with_voter(event.voter), now_ms)


def handle_remove(state: RaftState, event: RemoveVoter, now_ms: MonotonicMs) -> None:
    voters = state.voters.current
    error = _change_error(state)
    voter = voters.find(event.key.node_id)
    if error == ErrorCode.none and (voter is None or voter.key != event.key or len(voters.voters) == 1):
        error = ErrorCode.voter_not_found
    _change_or_refuse(state, event.token, error, voters.without(event.key.node_id), now_ms)


def handle_update(state: RaftState, token: int, request: UpdateVoterRequest) -> None:
    """Update a voter's endpoints or versions. The voters stay the same, so the response need not wait for the commit."""
    error = leading.request_error(state, request.epoch)
    if error == ErrorCode.none:
        error = _change_error(state)
    current = state.voters.current.find(request.voter.key.node_id)
    if error == ErrorCode.none and (current is None or current.key != request.voter.key):
        error = ErrorCode.voter_not_found
    if error == ErrorCode.none and current != request.voter:
        append_voters(state, state.voters.current.with_voter(request.voter))
    response = UpdateVoterResponse(error=error, epoch=state.epoch, leader_id=state.leader_id)
    state.outbox.send(SendResponse(token, response))


def _change_error(state: RaftState) -> ErrorCode:
    """Whether voters may change now: only on a leader whose epoch has a committed entry, and after the last change is committed."""
    leader = state.leader
    if leader is None:
        return ErrorCode.not_leader_or_follower
    if state.voters.is_static:
        return ErrorCode.unsupported_version
    is_settled = state.high_watermark > max(leader.epoch_start, state.voters.offset)
    return ErrorCode.none if is_settled else ErrorCode.request_timed_out


def _is_caught_up(state: RaftState, key: ReplicaKey, now_ms: MonotonicMs) -> bool:
    leader = state.leader
    progress = leader.progress.get(key) if leader is not None else None
    if progress is None or progress.last_caught_up_ms < 0:
        return False
    is_fetching = progress.last_fetch_ms > now_ms - state.config.observer_forgotten_after_ms
    return is_fetching and progress.last_caught_up_ms > now_ms - CAUGHT_UP_WITHIN_MS


def _change_or_refuse(state: RaftState, token: int, error: ErrorCode, voters: VoterSet, now_ms: MonotonicMs) -> None:
    leader = state.leader
    if error != ErrorCode.none or leader is None:
        state.outbox.reply(ChangeRejected(token, error))
        return
    offset = append_voters(state, voters)
    leader.change = PendingVoterChange(token, offset, now_ms + state.config.request_timeout_ms)


def append_voters(state: RaftState, voters: VoterSet) -> int:
    return leading.append_entry(state, state.control.voters(voters), 1, voters).last_offset


def poll(state: RaftState, now_ms: MonotonicMs) -> None:
    """Act on timeouts: end pending changes that took too long, and report changes of this node's own endpoints."""
    role = state.role
    if isinstance(role, Leader):
        _poll_leader(state, role, now_ms)
    elif isinstance(role, Follower) and _is_outdated(state) and _may_tell(state, role, now_ms):
        role.update_at_ms = now_ms + state.config.fetch_timeout_ms
        state.send_request(role.leader_id, UpdateVoterRequest(epoch=state.epoch, voter=state.config.local), now_ms)


def _poll_leader(state: RaftState, leader: Leader, now_ms: MonotonicMs) -> None:
    if leader.change is not None and leader.change.deadline_ms <= now_ms:
        state.outbox.reply(ChangeRejected(leader.change.token, ErrorCode.request_timed_out))
        leader.change = None
    if _is_outdated(state) and _change_error(state) == ErrorCode.none:
        append_voters(state, state.voters.current.with_voter(state.config.local))


def deadline(state: RaftState) -> int | None:
    leader = state.leader
    return leader.change.deadline_ms if leader is not None and leader.change is not None else None


def is_voted_out(state: RaftState, leader: Leader) -> bool:
    """Whether the leader is no longer a voter, and that is committed."""
    return not state.is_voter and state.high_watermark > max(leader.epoch_start, state.voters.offset)


def _is_outdated(state: RaftState) -> bool:
    """Whether the voter set describes this node differently from its configuration."""
    recorded = state.voters.current.find(state.node_id)
    is_self = recorded is not None and recorded.key == state.config.key
    return is_self and not state.voters.is_static and recorded != state.config.local


def _may_tell(state: RaftState, role: Follower, now_ms: MonotonicMs) -> bool:
    is_due = role.update_at_ms <= now_ms < role.fetch_deadline_ms
    return role.has_fetched and is_due and state.requests.is_free(role.leader_id, now_ms)
