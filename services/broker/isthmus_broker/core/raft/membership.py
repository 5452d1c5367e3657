"""Adding, removing and updating voters, one at a time (KIP-853), and the upgrade from static voters to voters in the log."""

from typing import TypeVar

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft import election
from isthmus_broker.core.raft import leader as leading
from isthmus_broker.core.raft.events import (
    AddVoter,
    ChangeRejected,
    PeerRefused,
    RemoveVoter,
    SendResponse,
    UpgradeKraftVersion,
)
from isthmus_broker.core.raft.messages import UpdateVoterRequest, UpdateVoterResponse
from isthmus_broker.core.raft.roles import Follower, Leader, PendingVoterChange
from isthmus_broker.core.raft.state import RaftState
from isthmus_broker.core.raft.types import ReplicaKey, Voter, VoterSet

T = TypeVar("T")

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
        error = _update(state, request.voter)
    response = UpdateVoterResponse(error=error, epoch=state.epoch, leader_id=state.leader_id)
    state.outbox.send(SendResponse(token, response))


def _update(state: RaftState, voter: Voter) -> ErrorCode:
    leader, current = state.leader, state.voters.current.find(voter.key.node_id)
    # A description of a static voter is not written to the log, so nothing has to be committed before.
    error = ErrorCode.none if state.voters.is_static else _settled_error(state)
    if leader is None or error != ErrorCode.none:
        return error
    if current is None or not current.key.names(voter.key):
        return ErrorCode.voter_not_found
    if not voter.min_kraft_version <= state.voters.kraft_version <= voter.max_kraft_version:
        return ErrorCode.invalid_request
    if state.voters.is_static:
        leader.descriptions[voter.key.node_id] = voter
    elif current != voter:
        append_voters(state, state.voters.current.with_voter(voter))
    return ErrorCode.none


def handle_update_response(state: RaftState, peer: int, response: UpdateVoterResponse, now_ms: MonotonicMs) -> None:
    election.observe(state, response.epoch, response.leader_id, now_ms)
    role = state.role
    if response.error != ErrorCode.none:
        state.outbox.note(PeerRefused(peer, "UpdateRaftVoter", response.error))
    elif isinstance(role, Follower) and role.leader_id == peer:
        role.has_described_itself = True


def upgraded_voters(state: RaftState) -> VoterSet | None:
    """The static voters as they describe themselves; None unless each of them has, and supports kraft.version 1."""
    leader = state.leader
    if leader is None or not state.voters.is_static:
        return None
    descriptions = {**leader.descriptions, state.node_id: state.config.local}
    voters = tuple(descriptions[each] for each in state.voters.current.node_ids() if each in descriptions)
    supported = all(voter.max_kraft_version >= 1 and voter.key.directory_id is not None for voter in voters)
    return VoterSet(voters) if supported and len(voters) == len(state.voters.current.voters) else None


def handle_upgrade(state: RaftState, event: UpgradeKraftVersion, now_ms: MonotonicMs) -> None:
    """Write the voters to the log. They stay the same, so that majorities before and after it share a member."""
    voters, leader = upgraded_voters(state), state.leader
    error = _settled_error(state)
    if error == ErrorCode.none and voters is None:
        error = ErrorCode.invalid_update_version
    if error != ErrorCode.none or voters is None or leader is None:
        state.outbox.reply(ChangeRejected(event.token, error))
        return
    for static, voter in zip(state.voters.current.voters, voters.voters, strict=True):
        _rename(leader.progress, static.key, voter.key)
        _rename(leader.parked, static.key, voter.key)
    entry = leading.append_entry(state, state.control.upgrade(voters), 2, voters)
    leader.change = PendingVoterChange(event.token, entry.last_offset, now_ms + state.config.request_timeout_ms)


def _rename(tracked: dict[ReplicaKey, T], before: ReplicaKey, after: ReplicaKey) -> None:
    if before in tracked:
        tracked[after] = tracked.pop(before)


def _change_error(state: RaftState) -> ErrorCode:
    """Whether voters may be added or removed now."""
    if state.leader is not None and state.voters.is_static:
        return ErrorCode.unsupported_version
    return _settled_error(state)


def _settled_error(state: RaftState) -> ErrorCode:
    """Whether voters may change now: only on a leader whose epoch has a committed entry, and after the last change is committed."""
    leader = state.leader
    if leader is None:
        return ErrorCode.not_leader_or_follower
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
    """Act on timeouts: end pending changes that took too long, and describe this voter to the leader."""
    role = state.role
    if isinstance(role, Leader):
        _poll_leader(state, role, now_ms)
    elif isinstance(role, Follower) and _must_describe(state, role) and _may_describe(state, role, now_ms):
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


def _must_describe(state: RaftState, role: Follower) -> bool:
    """Whether the leader has no description of this voter: a leader of static voters does not find that of its predecessor in the log."""
    return state.is_voter and not role.has_described_itself if state.voters.is_static else _is_outdated(state)


def _is_outdated(state: RaftState) -> bool:
    """Whether the voter set in the log describes this node differently from its configuration."""
    recorded = state.voters.current.find(state.node_id)
    is_self = recorded is not None and recorded.key == state.config.key
    return is_self and not state.voters.is_static and recorded != state.config.local


def _may_describe(state: RaftState, role: Follower, now_ms: MonotonicMs) -> bool:
    is_due = role.update_at_ms <= now_ms < role.fetch_deadline_ms
    return role.has_fetched and is_due and state.requests.is_free(role.leader_id, now_ms)
