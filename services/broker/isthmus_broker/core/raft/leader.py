"""Replication on the leader: appending, serving fetches, counting majorities, and noticing that there is none."""

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.raft import commit
from isthmus_broker.core.raft.config import REPLICAS_OBSERVED_MAX
from isthmus_broker.core.raft.events import AppendEntry, AppendRequest, ChangeRejected, LogRead, SendResponse
from isthmus_broker.core.raft.messages import BeginQuorumEpochRequest, FetchRequest, FetchResponse
from isthmus_broker.core.raft.quorum import majority_offset
from isthmus_broker.core.raft.roles import FetchState, Leader, ParkedFetch, PendingAppend
from isthmus_broker.core.raft.state import RaftState
from isthmus_broker.core.raft.types import Entry, QuorumInfo, ReplicaKey, ReplicaProgress, VoterSet


def append_entry(state: RaftState, payload: bytes, record_count: int, voters: VoterSet | None = None) -> Entry:
    """Append one batch to the leader's log."""
    entry = Entry(state.log.end, state.log.end + record_count - 1, state.epoch, payload, voters)
    write_entry(state, entry)
    return entry


def write_entry(state: RaftState, entry: Entry) -> None:
    """Append an entry, on leader and follower alike. A voter set in it is effective at once."""
    state.log.append(entry.epoch, entry.base_offset, entry.last_offset, state.outbox.mark)
    state.outbox.write(AppendEntry(entry))
    state.bytes_since_snapshot += len(entry.payload)
    if entry.voters is not None:
        state.voters.append(entry.last_offset, entry.voters)


def start_epoch(state: RaftState) -> None:
    """Open the leader's epoch with a LeaderChange entry.

    Until it is committed, older entries must not count as committed (the raft paper, 5.4.2). The first leader of a dynamic quorum also
    appends the voters it was formatted with.
    """
    leader = state.leader
    assert leader is not None
    voters = state.voters.current
    first = voters if not state.voters.is_static and state.voters.offset == -1 else None
    payload = state.control.leader_change(state.node_id, voters.node_ids(), leader.granting, first)
    append_entry(state, payload, 1 if first is None else 3, first)


def handle_append(state: RaftState, event: AppendRequest) -> None:
    leader = state.leader
    error = None
    if leader is None:
        error = ErrorCode.not_leader_or_follower
    elif len(event.payload) > state.config.append_bytes_max:
        error = ErrorCode.record_list_too_large
    elif len(leader.appends) >= state.config.appends_pending_max:
        error = ErrorCode.throttling_quota_exceeded
    if leader is None or error is not None:
        state.outbox.reply(ChangeRejected(event.token, error or ErrorCode.not_leader_or_follower))
        return
    entry = append_entry(state, event.payload, event.record_count)
    leader.appends.append(PendingAppend(event.token, entry.base_offset, entry.last_offset))


def request_error(state: RaftState, epoch: int) -> ErrorCode:
    """Why a request that needs the leader is refused; `none` if it is not."""
    if epoch < state.epoch:
        return ErrorCode.fenced_leader_epoch
    if epoch > state.epoch:
        return ErrorCode.unknown_leader_epoch
    return ErrorCode.none if state.leader is not None else ErrorCode.not_leader_or_follower


def handle_fetch(state: RaftState, token: int, request: FetchRequest, now_ms: MonotonicMs) -> None:
    error = request_error(state, request.epoch)
    leader = state.leader
    if error != ErrorCode.none or leader is None:
        response = FetchResponse(error=error, epoch=state.epoch, leader_id=state.leader_id)
        state.outbox.send(SendResponse(token, response))
        return
    progress = record_contact(state, leader, request.replica, now_ms)
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    if state.log.is_below_start(offset, epoch):
        state.outbox.send(SendResponse(token, _fetch_response(state, snapshot=True)))
        return
    diverging = state.log.divergence(offset, epoch)
    if diverging is not None:
        response = FetchResponse(
            error=ErrorCode.none,
            epoch=state.epoch,
            leader_id=state.node_id,
            high_watermark=state.high_watermark,
            log_start=state.log.start,
            diverging=diverging,
        )
        state.outbox.send(SendResponse(token, response))
        return
    if progress is not None:
        _record_fetch(state, progress, offset, now_ms)
        update_high_watermark(state, now_ms)
    _respond_or_park(state, leader, ParkedFetch(token, request, now_ms + _wait(state, request)))


def record_contact(state: RaftState, leader: Leader, replica: ReplicaKey, now_ms: MonotonicMs) -> FetchState | None:
    """Record when a replica last sent a request. Return None for an observer beyond the limit."""
    key = progress_key(state, replica)
    progress = leader.progress.get(key)
    if progress is None:
        if not state.voters.is_voter(key) and len(leader.progress) >= REPLICAS_OBSERVED_MAX:
            forget_observers(state, now_ms)
            if len(leader.progress) >= REPLICAS_OBSERVED_MAX:
                return None
        progress = leader.progress[key] = FetchState()
    progress.contact_ms = now_ms
    return progress


def progress_key(state: RaftState, replica: ReplicaKey) -> ReplicaKey:
    """The key under which a replica is tracked. A static voter is identified by its node id, whatever directory it names."""
    voter = state.voters.current.find(replica.node_id)
    return voter.key if voter is not None and voter.key.directory_id is None else replica


def _record_fetch(state: RaftState, progress: FetchState, offset: int, now_ms: MonotonicMs) -> None:
    if offset >= state.log.durable_end:
        progress.last_caught_up_ms = now_ms
    elif 0 <= progress.leader_end_at_fetch <= offset:
        progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
    progress.end_offset = offset
    progress.last_fetch_ms = now_ms
    progress.leader_end_at_fetch = state.log.durable_end


def _wait(state: RaftState, request: FetchRequest) -> int:
    return max(0, min(request.max_wait_ms, state.config.fetch_wait_max_ms))


def _respond_or_park(state: RaftState, leader: Leader, fetch: ParkedFetch) -> None:
    key = progress_key(state, fetch.request.replica)
    earlier = leader.parked.pop(key, None)
    if earlier is not None:
        _respond(state, earlier)
    if _has_news(state, fetch) or fetch.request.max_wait_ms <= 0 or key not in leader.progress:
        _respond(state, fetch)
    else:
        leader.parked[key] = fetch


def _has_news(state: RaftState, fetch: ParkedFetch) -> bool:
    request = fetch.request
    return request.fetch_offset < state.log.durable_end or request.high_watermark < state.high_watermark


def _respond(state: RaftState, fetch: ParkedFetch) -> None:
    """Respond with entries that are durable here: a follower never has entries that its leader could still lose."""
    request = fetch.request
    if state.log.is_below_start(request.fetch_offset, request.last_fetched_epoch):
        state.outbox.send(SendResponse(fetch.token, _fetch_response(state, snapshot=True)))
        return
    read = None
    if request.fetch_offset < state.log.durable_end:
        size = min(request.max_bytes, state.config.fetch_bytes_max)
        read = LogRead(request.fetch_offset, state.log.durable_end, size)
    state.outbox.send(SendResponse(fetch.token, _fetch_response(state), read))


def _fetch_response(state: RaftState, *, snapshot: bool = False) -> FetchResponse:
    return FetchResponse(
        error=ErrorCode.none,
        epoch=state.epoch,
        leader_id=state.node_id,
        high_watermark=state.high_watermark,
        log_start=state.log.start,
        snapshot=state.log.latest_snapshot() if snapshot else None,
    )


def serve_parked(state: RaftState, leader: Leader, now_ms: MonotonicMs) -> None:
    """Respond to the parked fetches for which there is something new or whose wait has ended."""
    for key in sorted(leader.parked, key=ReplicaKey.sort_key):
        fetch = leader.parked[key]
        if _has_news(state, fetch) or fetch.deadline_ms <= now_ms:
            del leader.parked[key]
            _respond(state, fetch)


def update_high_watermark(state: RaftState, now_ms: MonotonicMs) -> None:
    """Commit what a majority of the voters has durably, if it includes an entry of the leader's own epoch."""
    leader = state.leader
    assert leader is not None
    ends = [_end_offset(state, leader, voter.key) for voter in state.voters.current.voters]
    reached = majority_offset(ends)
    if reached > leader.epoch_start:
        commit.advance(state, reached, now_ms)


def _end_offset(state: RaftState, leader: Leader, key: ReplicaKey) -> int:
    if _is_self(state, key):
        return state.log.durable_end
    progress = leader.progress.get(key)
    return progress.end_offset if progress is not None else -1


def majority_contact_ms(state: RaftState, leader: Leader, now_ms: MonotonicMs) -> int:
    """The latest time since which a majority of the voters has sent requests to this leader."""
    times = []
    for voter in state.voters.current.voters:
        progress = leader.progress.get(voter.key)
        contact_ms = (
            progress.contact_ms if progress is not None and progress.contact_ms is not None else leader.since_ms
        )
        times.append(now_ms if _is_self(state, voter.key) else contact_ms)
    return majority_offset(times)


def announce(state: RaftState, leader: Leader, now_ms: MonotonicMs) -> None:
    """Announce this leader to voters that do not fetch from it."""
    for key in _other_voters(state):
        if _announce_at(state, leader, key) <= now_ms and state.requests.is_free(key.node_id, now_ms):
            leader.announced_ms[key.node_id] = now_ms
            request = BeginQuorumEpochRequest(epoch=state.epoch, leader_id=state.node_id, voter=key)
            state.send_request(key.node_id, request, now_ms)


def announce_deadline(state: RaftState, leader: Leader, now_ms: MonotonicMs) -> int | None:
    """When the next announcement is due. Voters with a request in flight are covered by its timeout."""
    free = [key for key in _other_voters(state) if state.requests.is_free(key.node_id, now_ms)]
    return min((_announce_at(state, leader, key) for key in free), default=None)


def _announce_at(state: RaftState, leader: Leader, key: ReplicaKey) -> int:
    period = state.config.begin_epoch_period_ms
    progress = leader.progress.get(key)
    contact_ms = progress.contact_ms if progress is not None else None
    announced = leader.announced_ms.get(key.node_id)
    last = max((each for each in (contact_ms, announced) if each is not None), default=None)
    return leader.since_ms if last is None else last + period


def _other_voters(state: RaftState) -> list[ReplicaKey]:
    return [voter.key for voter in state.voters.current.voters if not _is_self(state, voter.key)]


def _is_self(state: RaftState, key: ReplicaKey) -> bool:
    return key.names(state.config.key)


def forget_observers(state: RaftState, now_ms: MonotonicMs) -> None:
    """Stop tracking replicas that are not voters and have not sent a request for a long time."""
    leader = state.leader
    assert leader is not None
    oldest = now_ms - state.config.observer_forgotten_after_ms
    for key in list(leader.progress):
        contact_ms = leader.progress[key].contact_ms
        if not state.voters.is_voter(key) and contact_ms is not None and contact_ms < oldest:
            del leader.progress[key]


def release(state: RaftState, leader: Leader) -> None:
    """Reject pending requests after the loss of leadership. Their entries may or may not survive."""
    for append in leader.appends:
        state.outbox.reply(ChangeRejected(append.token, ErrorCode.not_leader_or_follower))
    if leader.change is not None:
        state.outbox.reply(ChangeRejected(leader.change.token, ErrorCode.not_leader_or_follower))
    for key in sorted(leader.parked, key=ReplicaKey.sort_key):
        response = FetchResponse(error=ErrorCode.not_leader_or_follower, epoch=state.epoch, leader_id=state.leader_id)
        state.outbox.send(SendResponse(leader.parked[key].token, response))


def describe(state: RaftState, now_ms: MonotonicMs) -> QuorumInfo | None:
    leader = state.leader
    if leader is None:
        return None
    forget_observers(state, now_ms)
    voters = tuple(_describe_voter(state, leader, voter.key, now_ms) for voter in state.voters.current.voters)
    voter_keys = {progress_key(state, info.key) for info in voters}
    observers = tuple(
        _row(key, leader.progress[key])
        for key in sorted(leader.progress, key=ReplicaKey.sort_key)
        if key not in voter_keys
    )
    return QuorumInfo(state.node_id, state.epoch, state.high_watermark, voters, observers)


def _describe_voter(state: RaftState, leader: Leader, key: ReplicaKey, now_ms: MonotonicMs) -> ReplicaProgress:
    if _is_self(state, key):
        return ReplicaProgress(key, state.log.end, now_ms, now_ms)
    return _row(key, leader.progress.get(key, FetchState()))


def _row(key: ReplicaKey, progress: FetchState) -> ReplicaProgress:
    return ReplicaProgress(key, progress.end_offset, progress.last_fetch_ms, progress.last_caught_up_ms)
