"""Elections: pre-votes, votes, every change of role and epoch, BeginQuorumEpoch and EndQuorumEpoch."""

from collections.abc import Collection
from typing import Final

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft import commit
from isthmus_broker.core.raft import leader as leading
from isthmus_broker.core.raft.events import LeadershipLost, RoleChanged, SaveQuorumState, SendResponse
from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from isthmus_broker.core.raft.quorum import Ballot
from isthmus_broker.core.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)
from isthmus_broker.core.raft.state import RaftState
from isthmus_broker.core.raft.types import QuorumState, ReplicaKey


def start(state: RaftState, now_ms: MonotonicMs) -> None:
    """Take the role that the durable state allows. A former leader must not act in an epoch it may have led."""
    latest_epoch = max(state.epoch, state.log.last_epoch)
    if latest_epoch > state.epoch:
        _save(state, QuorumState(latest_epoch))
    if state.leader_id == state.node_id and not state.is_only_voter:
        state.role = _resigned(state, (), now_ms)
    elif state.leader_id is not None and state.leader_id != state.node_id:
        state.role = _follower(state, state.leader_id, now_ms)
    else:
        # The leader is unknown. If there is one, pre-votes will be refused; if all nodes have just started, there is no reason to wait.
        state.role = Unattached(now_ms + state.random_backoff(_START_STEPS))
    state.outbox.note(_role_note(state))


_START_STEPS: Final = 3
"""Slightly longer than the first pause after a lost election, so that nodes that start together do not all start elections at once."""


# Changes of role


def become_unattached(state: RaftState, epoch: int, now_ms: MonotonicMs, voted: ReplicaKey | None = None) -> None:
    """Enter a higher epoch, vote in this one, or stop requesting votes in it."""
    quorum = QuorumState(epoch, None, voted) if epoch > state.epoch or voted is not None else state.quorum
    _become(state, Unattached(now_ms + state.random_election_timeout()), quorum, now_ms)


def become_follower(state: RaftState, epoch: int, leader_id: int, now_ms: MonotonicMs) -> None:
    assert leader_id != state.node_id
    state.requests.forget_failures()
    _become(state, _follower(state, leader_id, now_ms), QuorumState(epoch, leader_id), now_ms)


def become_prospective(state: RaftState, now_ms: MonotonicMs) -> None:
    assert state.may_elect
    before = state.role
    losses = before.losses if isinstance(before, Unattached | Follower | Candidate) else 0
    losses += isinstance(before, Candidate)
    unresponsive: Collection[int] = before.ballot.unresponsive if isinstance(before, Candidate) else ()
    if isinstance(before, Follower):
        unresponsive = (before.leader_id,)
    role = Prospective(_own_ballot(state, unresponsive), *_deadlines(state, losses, now_ms))
    _become(state, role, state.quorum, now_ms)


def become_candidate(state: RaftState, now_ms: MonotonicMs) -> None:
    assert isinstance(state.role, Prospective)
    ballot = _own_ballot(state, state.role.ballot.unresponsive)
    role = Candidate(ballot, *_deadlines(state, state.role.losses, now_ms))
    _become(state, role, QuorumState(state.epoch + 1, None, state.config.key), now_ms)


def become_leader(state: RaftState, now_ms: MonotonicMs) -> None:
    assert isinstance(state.role, Candidate)
    state.requests.forget_failures()
    role = Leader(now_ms, state.log.end, state.role.ballot.granting(), state.leader_contact)
    state.leader_contact = None
    _become(state, role, QuorumState(state.epoch, state.node_id), now_ms)
    leading.start_epoch(state)


def become_resigned(state: RaftState, now_ms: MonotonicMs) -> None:
    """Resign. The voters are proposed as successors, those with the highest log end offsets first."""
    leader = state.leader
    assert leader is not None
    others = [voter.key for voter in state.voters.current.voters if voter.key.node_id != state.node_id]
    ends = {key: progress.end_offset for key, progress in leader.progress.items()}
    successors = tuple(sorted(others, key=lambda key: (-ends.get(key, -1), key.sort_key())))
    _become(state, _resigned(state, successors, now_ms), state.quorum, now_ms)


def _become(state: RaftState, role: Role, quorum: QuorumState, now_ms: MonotonicMs) -> None:
    check_transition(state.role, role, state.epoch, quorum.epoch)
    left = state.leader
    state.role = role
    if quorum != state.quorum:
        _save(state, quorum)
    state.requests.reset()
    if left is not None:
        leading.release(state, left)
    state.outbox.note(_role_note(state))
    commit.announce_leader(state)


def _save(state: RaftState, quorum: QuorumState) -> None:
    """Persist an epoch, a vote or a leader. Within one epoch each may be set but not changed."""
    old = state.quorum
    if quorum.epoch == old.epoch:
        assert old.leader_id is None, f"epoch {old.epoch} already has leader {old.leader_id}"
        assert old.voted in (None, quorum.voted) or quorum.leader_id is not None, f"second vote in epoch {old.epoch}"
    state.quorum = quorum
    state.outbox.write(SaveQuorumState(quorum, state.voters.current if state.voters.is_static else None))


def _role_note(state: RaftState) -> RoleChanged:
    return RoleChanged(state.epoch, type(state.role).__name__, state.leader_id)


def _follower(state: RaftState, leader_id: int, now_ms: MonotonicMs) -> Follower:
    return Follower(leader_id, now_ms + state.config.fetch_timeout_ms)


def _resigned(state: RaftState, successors: tuple[ReplicaKey, ...], now_ms: MonotonicMs) -> Resigned:
    return Resigned(now_ms + state.random_election_timeout(), successors, set(state.other_voters()))


def _own_ballot(state: RaftState, unresponsive: Collection[int]) -> Ballot:
    voters = state.voters.current.node_ids()
    ballot = Ballot(voters, unresponsive={*voters} & {*unresponsive})
    ballot.record(state.node_id, True)
    return ballot


def _deadlines(state: RaftState, losses: int, now_ms: MonotonicMs) -> tuple[int, int, int]:
    """The deadline of an election, its earlier losses, and the deadline if only unresponsive voters can still decide it."""
    return now_ms + state.random_election_timeout(), losses, now_ms + state.random_patience(losses)


def observe(state: RaftState, epoch: int, leader_id: int | None, now_ms: MonotonicMs) -> None:
    """Learn an epoch and its leader from any message.

    A node that is named leader of an epoch unknown to it has lost its disk: it follows no leader and waits for the next election.
    """
    if leader_id == state.node_id:
        leader_id = None
    if epoch > state.epoch:
        if leader_id is None:
            become_unattached(state, epoch, now_ms)
        else:
            become_follower(state, epoch, leader_id, now_ms)
    elif epoch == state.epoch and leader_id is not None and state.leader_id is None:
        become_follower(state, epoch, leader_id, now_ms)


# Timeouts


def poll(state: RaftState, now_ms: MonotonicMs) -> None:
    """Act on timeouts and votes. A role that changes here is polled again by the caller."""
    role = state.role
    if isinstance(role, Unattached):
        if state.may_elect and (role.election_at_ms <= now_ms or state.is_only_voter):
            become_prospective(state, now_ms)
    elif isinstance(role, Prospective):
        _poll_prospective(state, role, now_ms)
    elif isinstance(role, Candidate):
        _poll_candidate(state, role, now_ms)
    elif isinstance(role, Resigned):
        _poll_resigned(state, role, now_ms)


def _poll_prospective(state: RaftState, role: Prospective, now_ms: MonotonicMs) -> None:
    if role.ballot.is_won():
        become_candidate(state, now_ms)
    elif not role.ballot.is_lost() and now_ms < role.ends_ms():
        _request_votes(state, role.ballot, state.epoch, now_ms, pre_vote=True)
    elif state.leader_id is None or state.leader_id == state.node_id:
        _give_up(state, role, now_ms)
    else:
        # Other voters may still receive responses from the leader: follow it again, in the same epoch.
        follower = _follower(state, state.leader_id, now_ms)
        follower.losses = role.losses + 1
        follower.is_majority_dead = role.ballot.is_majority_dead()
        _become(state, follower, state.quorum, now_ms)


def _give_up(state: RaftState, role: Prospective, now_ms: MonotonicMs) -> None:
    """Wait for another election. If voters are dead or unresponsive, the others have just rejected each other: a short pause is enough."""
    become_unattached(state, state.epoch, now_ms)
    if role.ballot.gone or role.ballot.unresponsive:
        losses = role.losses + 1
        pause = state.election_pause(losses, is_majority_dead=role.ballot.is_majority_dead())
        state.role = Unattached(MonotonicMs(now_ms + pause), losses)


def _poll_candidate(state: RaftState, role: Candidate, now_ms: MonotonicMs) -> None:
    if role.ballot.is_won():
        become_leader(state, now_ms)
    elif now_ms >= role.ends_ms():
        become_prospective(state, now_ms)
    elif role.ballot.is_lost() and not role.backing_off:
        role.backing_off = True
        role.deadline_ms = min(role.deadline_ms, now_ms + state.random_backoff(role.losses))
    elif not role.backing_off:
        _request_votes(state, role.ballot, state.epoch, now_ms, pre_vote=False)


def _poll_resigned(state: RaftState, role: Resigned, now_ms: MonotonicMs) -> None:
    if now_ms >= role.deadline_ms and not state.shutting_down:
        # No vote was given in the next epoch, and none can be given in this one, which this node has led.
        become_unattached(state, state.epoch + 1, now_ms)
        return
    request = EndQuorumEpochRequest(epoch=state.epoch, leader_id=state.node_id, preferred_successors=role.successors)
    for peer in sorted(role.uninformed):
        if state.requests.is_free(peer, now_ms):
            state.send_request(peer, request, now_ms)


def _request_votes(state: RaftState, ballot: Ballot, epoch: int, now_ms: MonotonicMs, *, pre_vote: bool) -> None:
    for peer in ballot.undecided():
        voter = state.voters.current.find(peer)
        if voter is not None and state.requests.is_free(peer, now_ms):
            request = VoteRequest(
                epoch=epoch,
                candidate=state.config.key,
                voter=voter.key,
                last_epoch=state.log.last_epoch,
                end_offset=state.log.end,
                pre_vote=pre_vote,
            )
            state.send_request(peer, request, now_ms, durable=True)


def deadline(state: RaftState) -> int | None:
    role = state.role
    if isinstance(role, Unattached):
        return role.election_at_ms if state.may_elect else None
    if isinstance(role, Resigned):
        return None if state.shutting_down else role.deadline_ms
    return role.ends_ms() if isinstance(role, Prospective | Candidate) else None


# Messages


def handle_vote(state: RaftState, token: int, request: VoteRequest, now_ms: MonotonicMs) -> None:
    error = _vote_error(request)
    if error == ErrorCode.none:
        error = _voter_request_error(state, request.epoch, request.voter)
    granted = False
    if error == ErrorCode.none:
        observe(state, request.epoch, None, now_ms)
        granted = _can_grant(state, request)
        if granted and not request.pre_vote and state.quorum.voted is None:
            become_unattached(state, state.epoch, now_ms, request.candidate)
    response = VoteResponse(error=error, epoch=state.epoch, leader_id=state.leader_id, granted=granted)
    send = SendResponse(token, response)
    if granted and not request.pre_vote:
        state.outbox.send_durable(send)
    else:
        state.outbox.send(send)


def _can_grant(state: RaftState, request: VoteRequest) -> bool:
    """Decide on a vote. It goes to one candidate per epoch, and only if the candidate's log is at least as complete (epoch first, then
    length).

    The candidate need not be a voter in this node's view: its log may contain a later voter set.
    """
    role = state.role
    is_log_complete = (request.last_epoch, request.end_offset) >= (state.log.last_epoch, state.log.end)
    if request.pre_vote:
        return is_log_complete and not state.is_led
    if not isinstance(role, Unattached | Prospective) or state.leader_id is not None:
        return False
    voted = state.quorum.voted
    return is_log_complete if voted is None else voted.names(request.candidate)


def handle_vote_response(state: RaftState, peer: int, response: VoteResponse, now_ms: MonotonicMs) -> None:
    observe(state, response.epoch, response.leader_id, now_ms)
    role = state.role
    if isinstance(role, Prospective | Candidate):
        if response.error == ErrorCode.none:
            role.ballot.record(peer, response.granted)
        else:
            state.requests.back_off(peer, now_ms)


def handle_begin_epoch(state: RaftState, token: int, request: BeginQuorumEpochRequest, now_ms: MonotonicMs) -> None:
    error = _voter_request_error(state, request.epoch, request.voter)
    if error == ErrorCode.none:
        observe(state, request.epoch, request.leader_id, now_ms)
        state.leader_contact = request.leader_id, now_ms
    response = BeginQuorumEpochResponse(error=error, epoch=state.epoch, leader_id=state.leader_id)
    state.outbox.send(SendResponse(token, response))


def handle_end_epoch(state: RaftState, token: int, request: EndQuorumEpochRequest, now_ms: MonotonicMs) -> None:
    """Start an election after the leader has resigned, the sooner the higher it ranked this node among its successors."""
    error = _voter_request_error(state, request.epoch, state.config.key)
    if error == ErrorCode.none:
        observe(state, request.epoch, request.leader_id, now_ms)
        state.leader_contact = request.leader_id, now_ms
        role = state.role
        if isinstance(role, Follower) and role.leader_id == request.leader_id:
            role.fetch_deadline_ms = min(role.fetch_deadline_ms, now_ms + _succession_delay(state, request))
            role.has_fetched = False
    response = EndQuorumEpochResponse(error=error, epoch=state.epoch, leader_id=state.leader_id)
    state.outbox.send(SendResponse(token, response))


def handle_peer_gone(state: RaftState, peer: int, now_ms: MonotonicMs) -> None:
    """Find another leader soon after this one's process has died, after a pause that is short and random enough not to split the votes.

    A dead voter's vote is not waited for: two candidates that have rejected each other try again after a short pause.

    A mistaken report does no harm: pre-votes are refused by a leader, and by followers that still receive responses from one.
    """
    role = state.role
    if isinstance(role, Follower) and role.leader_id == peer:
        pause = state.election_pause(role.losses + 1, is_majority_dead=role.is_majority_dead)
        role.fetch_deadline_ms = min(role.fetch_deadline_ms, now_ms + pause)
        role.has_fetched = False
    elif isinstance(role, Prospective | Candidate) and peer in role.ballot.undecided():
        role.ballot.gone.add(peer)


def _succession_delay(state: RaftState, request: EndQuorumEpochRequest) -> int:
    places = [place for place, key in enumerate(request.preferred_successors) if key.node_id == state.node_id]
    if not places:
        return state.random_election_timeout()
    return 0 if places[0] == 0 else state.random_backoff(places[0])


def handle_end_epoch_response(
    state: RaftState, peer: int, response: EndQuorumEpochResponse, now_ms: MonotonicMs
) -> None:
    observe(state, response.epoch, response.leader_id, now_ms)
    if isinstance(state.role, Resigned) and response.error == ErrorCode.none:
        state.role.uninformed.discard(peer)
    else:
        state.requests.back_off(peer, now_ms)


def handle_begin_epoch_response(
    state: RaftState, peer: int, response: BeginQuorumEpochResponse, now_ms: MonotonicMs
) -> None:
    observe(state, response.epoch, response.leader_id, now_ms)
    if response.error != ErrorCode.none:
        state.requests.back_off(peer, now_ms)


def _vote_error(request: VoteRequest) -> ErrorCode:
    """A candidate's log ends before the epoch that it wants to lead; a pre-vote is for the candidate's current epoch."""
    newest = request.epoch if request.pre_vote else request.epoch - 1
    is_possible = 0 <= request.last_epoch <= newest and request.end_offset >= 0
    return ErrorCode.none if is_possible else ErrorCode.invalid_request


def _voter_request_error(state: RaftState, epoch: int, voter: ReplicaKey) -> ErrorCode:
    if epoch < state.epoch:
        return ErrorCode.fenced_leader_epoch
    if not voter.names(state.config.key):
        return ErrorCode.invalid_voter_key
    return ErrorCode.none


def resign_without_majority(state: RaftState, now_ms: MonotonicMs) -> None:
    state.outbox.note(LeadershipLost(state.epoch))
    become_resigned(state, now_ms)
