"""The raft core: takes events and time, dispatches to the handlers, and polls the role until nothing changes."""

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.contract import RandomSource
from isthmus_broker.core.raft import commit, election, membership, snapshots
from isthmus_broker.core.raft import follower as following
from isthmus_broker.core.raft import leader as leading
from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.events import (
    AddVoter,
    AppendRequest,
    Event,
    InstallSnapshot,
    RaftReady,
    RemoveVoter,
    RequestFailed,
    RequestReceived,
    ResponseReceived,
    Shutdown,
    SnapshotReceived,
    SnapshotTaken,
    UpgradeKraftVersion,
)
from isthmus_broker.core.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from isthmus_broker.core.raft.roles import Leader, Role
from isthmus_broker.core.raft.state import ControlRecords, RaftState
from isthmus_broker.core.raft.types import QuorumInfo, QuorumState, Recovered, SnapshotId, VoterSet


class Raft:
    """One node of the quorum, voter or observer. Implements `core.contract.Core`."""

    def __init__(
        self,
        config: RaftConfig,
        recovered: Recovered,
        random: RandomSource,
        control: ControlRecords,
        now_ms: MonotonicMs,
    ) -> None:
        """Start from the state in storage. A quorum of one becomes leader before this returns, and commits with its first write."""
        state = self._state = RaftState(config, recovered, random, control, now_ms)
        unfinished = state.log.unfinished_install()
        if unfinished is not None:
            state.outbox.write(InstallSnapshot(unfinished))
            state.log.install(unfinished, state.outbox.mark)
            state.voters.truncate_to(unfinished.end_offset)
            state.voters.drop_before(unfinished.end_offset)
        latest = state.log.latest_snapshot()
        if latest is not None:
            commit.load_snapshot(state, latest)
        election.start(state, now_ms)
        commit.announce_leader(state)
        self._poll(now_ms)

    # The contract

    def step(self, event: Event, now_ms: MonotonicMs) -> None:
        state = self._state
        match event:
            case RequestReceived():
                self._request(event.token, event.request, now_ms)
            case ResponseReceived():
                if state.requests.finish(event.peer, event.request_id):
                    self._response(event.peer, event.response, now_ms)
            case RequestFailed():
                self._request_failed(event, now_ms)
            case AppendRequest():
                leading.handle_append(state, event)
            case AddVoter():
                membership.handle_add(state, event, now_ms)
            case RemoveVoter():
                membership.handle_remove(state, event, now_ms)
            case UpgradeKraftVersion():
                membership.handle_upgrade(state, event, now_ms)
            case SnapshotTaken():
                commit.snapshot_taken(state, event.snapshot)
            case SnapshotReceived():
                snapshots.handle_received(state, event)
            case Shutdown():
                self._shut_down(now_ms)
        self._poll(now_ms)

    def tick(self, now_ms: MonotonicMs) -> None:
        self._state.requests.expire(now_ms)
        commit.maybe_take_snapshot(self._state, now_ms)
        self._poll(now_ms)

    def persisted(self, mark: int, now_ms: MonotonicMs) -> None:
        state = self._state
        state.outbox.persisted(mark)
        state.log.persisted(mark)
        if state.leader is not None:
            leading.update_high_watermark(state, now_ms)
        commit.deliver(state, now_ms)
        self._poll(now_ms)

    def deadline(self) -> int | None:
        return self._deadline

    def take(self) -> RaftReady:
        return self._state.outbox.take()

    # Queries

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def leader_id(self) -> int | None:
        return self._state.leader_id

    @property
    def is_leader(self) -> bool:
        return self._state.leader is not None

    @property
    def is_led(self) -> bool:
        """Whether this node leads, or its leader responds. After an election without a winner it follows the former leader again, and is
        not led until that leader responds.
        """
        return self._state.is_led

    @property
    def predecessor_contact(self) -> tuple[int, MonotonicMs] | None:
        """As leader: the leader that this node followed before, and when it received its last message."""
        leader = self._state.leader
        return None if leader is None else leader.predecessor_contact

    @property
    def role(self) -> type[Role]:
        return type(self._state.role)

    @property
    def quorum_state(self) -> QuorumState:
        return self._state.quorum

    @property
    def high_watermark(self) -> int:
        return self._state.high_watermark

    @property
    def log_start(self) -> int:
        return self._state.log.start

    @property
    def log_end(self) -> int:
        return self._state.log.end

    @property
    def snapshots(self) -> tuple[SnapshotId, ...]:
        return tuple(self._state.log.snapshots)

    @property
    def voters(self) -> VoterSet:
        return self._state.voters.current

    @property
    def kraft_version(self) -> int:
        """1 if the voters are in the log, 0 if they are in the settings."""
        return self._state.voters.kraft_version

    @property
    def can_upgrade(self) -> bool:
        """Whether this node is the leader, and every static voter supports kraft.version 1."""
        return membership.upgraded_voters(self._state) is not None

    def describe(self, now_ms: MonotonicMs) -> QuorumInfo | None:
        """The rows of DescribeQuorum; None when this node is not the leader."""
        return leading.describe(self._state, now_ms)

    # Inside

    def _request(self, token: int, request: Request, now_ms: MonotonicMs) -> None:
        state = self._state
        match request:
            case FetchRequest():
                leading.handle_fetch(state, token, request, now_ms)
            case VoteRequest():
                election.handle_vote(state, token, request, now_ms)
            case BeginQuorumEpochRequest():
                election.handle_begin_epoch(state, token, request, now_ms)
            case EndQuorumEpochRequest():
                election.handle_end_epoch(state, token, request, now_ms)
            case FetchSnapshotRequest():
                snapshots.handle_fetch_snapshot(state, token, request, now_ms)
            case UpdateVoterRequest():
                membership.handle_update(state, token, request)

    def _request_failed(self, event: RequestFailed, now_ms: MonotonicMs) -> None:
        if self._state.requests.finish(event.peer, event.request_id):
            self._state.requests.back_off(event.peer, now_ms)
        if event.is_gone:
            election.handle_peer_gone(self._state, event.peer, now_ms)

    def _response(self, peer: int, response: Response, now_ms: MonotonicMs) -> None:
        state = self._state
        match response:
            case FetchResponse():
                following.handle_fetch_response(state, peer, response, now_ms)
            case VoteResponse():
                election.handle_vote_response(state, peer, response, now_ms)
            case BeginQuorumEpochResponse():
                election.handle_begin_epoch_response(state, peer, response, now_ms)
            case EndQuorumEpochResponse():
                election.handle_end_epoch_response(state, peer, response, now_ms)
            case FetchSnapshotResponse():
                snapshots.handle_fetch_snapshot_response(state, peer, response, now_ms)
            case UpdateVoterResponse():
                membership.handle_update_response(state, peer, response, now_ms)

    def _shut_down(self, now_ms: MonotonicMs) -> None:
        self._state.shutting_down = True
        if self._state.leader is not None and not self._state.is_only_voter:
            election.become_resigned(self._state, now_ms)

    def _poll(self, now_ms: MonotonicMs) -> None:
        """Poll the role, again after each change of it. The longest chain leads from Unattached to Leader."""
        state = self._state
        for _ in range(_ROLE_CHANGES_MAX):
            role = state.role
            election.poll(state, now_ms)
            if state.role is role:
                self._poll_replication(now_ms)
            if state.role is role:
                break
        else:
            raise AssertionError("the role keeps changing")
        self._deadline = self._next_deadline(now_ms)

    def _poll_replication(self, now_ms: MonotonicMs) -> None:
        state = self._state
        leader = state.leader
        if leader is None:
            membership.poll(state, now_ms)
            following.poll(state, now_ms)
            return
        leading.announce(state, leader, now_ms)
        leading.serve_parked(state, leader, now_ms)
        membership.poll(state, now_ms)
        if self._quorum_deadline(leader, now_ms) <= now_ms:
            election.resign_without_majority(state, now_ms)
        elif membership.is_voted_out(state, leader):
            election.become_resigned(state, now_ms)

    def _quorum_deadline(self, leader: Leader, now_ms: MonotonicMs) -> int:
        return leading.majority_contact_ms(self._state, leader, now_ms) + self._state.config.check_quorum_ms

    def _next_deadline(self, now_ms: MonotonicMs) -> int | None:
        state = self._state
        times = [
            election.deadline(state),
            following.deadline(state, now_ms),
            membership.deadline(state),
            commit.snapshot_deadline(state),
            state.requests.deadline(now_ms),
        ]
        leader = state.leader
        if leader is not None:
            times.append(leading.announce_deadline(state, leader, now_ms))
            times.extend(fetch.deadline_ms for fetch in leader.parked.values())
            if not state.is_only_voter:
                times.append(self._quorum_deadline(leader, now_ms))
        return min((time for time in times if time is not None), default=None)


_ROLE_CHANGES_MAX = 8
