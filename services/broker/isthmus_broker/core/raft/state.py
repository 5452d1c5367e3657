"""State shared by the handlers of the raft core: configuration, log, voters, role, outbox. `election` makes the role changes."""

from typing import Protocol

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.contract import RandomSource
from isthmus_broker.core.raft.config import RaftConfig
from isthmus_broker.core.raft.events import SendRequest
from isthmus_broker.core.raft.log_view import LogView
from isthmus_broker.core.raft.messages import Request
from isthmus_broker.core.raft.outbox import Outbox
from isthmus_broker.core.raft.requests import Requests
from isthmus_broker.core.raft.roles import Follower, Leader, Role, Unattached
from isthmus_broker.core.raft.types import QuorumState, Recovered, VoterSet
from isthmus_broker.core.raft.voters import VoterHistory


class ControlRecords(Protocol):
    """Makes the batches that raft itself appends to the log. Their format is not the core's concern."""

    def leader_change(
        self, leader_id: int, voters: tuple[int, ...], granting: tuple[int, ...], first: VoterSet | None
    ) -> bytes:
        """A LeaderChange record; with `first` followed by KRaftVersion and Voters records in the same batch."""

    def voters(self, voters: VoterSet) -> bytes:
        """A Voters record."""

    def upgrade(self, voters: VoterSet) -> bytes:
        """A KRaftVersion record and a Voters record in the same batch."""


class RaftState:
    """One node's view. Only `election` assigns `role` and `quorum`."""

    def __init__(
        self,
        config: RaftConfig,
        recovered: Recovered,
        random: RandomSource,
        control: ControlRecords,
        now_ms: MonotonicMs,
    ) -> None:
        self.config = config
        self.random = random
        self.control = control
        self.outbox = Outbox()
        self.log = LogView(recovered)
        self.voters = VoterHistory(config.static_voters, recovered.voters)
        self.requests = Requests(config.request_timeout_ms, config.retry_backoff_ms, config.election_backoff_max_ms)
        self.quorum: QuorumState = recovered.quorum
        self.role: Role = Unattached(now_ms)
        self.leader_contact: tuple[int, MonotonicMs] | None = None
        """The leader from which this node received the last message of a leader since it was leader itself, and when."""
        self.announced: tuple[int, int | None] | None = None
        """The epoch and leader last reported to the state machine."""
        self.high_watermark = self.log.start
        self.delivered = self.log.start
        """Everything below has been delivered to the state machine."""
        self.bytes_since_snapshot = recovered.bytes_since_snapshot
        self.snapshot_requested_ms = now_ms
        self.snapshot_requested = False
        self.shutting_down = False

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def leader_id(self) -> int | None:
        return self.quorum.leader_id

    @property
    def node_id(self) -> int:
        return self.config.node_id

    @property
    def leader(self) -> Leader | None:
        return self.role if isinstance(self.role, Leader) else None

    @property
    def is_led(self) -> bool:
        """Whether this node leads, or follows a leader that has responded within the fetch timeout."""
        return isinstance(self.role, Leader) or (isinstance(self.role, Follower) and self.role.has_fetched)

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.config.key)

    @property
    def may_elect(self) -> bool:
        return self.voters.may_elect(self.config.key, self.high_watermark)

    @property
    def is_only_voter(self) -> bool:
        return self.voters.current.is_only_voter(self.config.key)

    def other_voters(self) -> tuple[int, ...]:
        return tuple(each for each in self.voters.current.node_ids() if each != self.node_id)

    def random_election_timeout(self) -> int:
        timeout = self.config.election_timeout_ms
        return timeout + self.random.randrange(timeout)

    def random_patience(self, losses: int) -> int:
        """How long an election waits for unresponsive voters: a fraction of the election timeout, which doubles with every loss."""
        quarter = max(self.config.election_timeout_ms // 4, 1)
        return min((quarter + self.random.randrange(quarter)) << min(losses, 16), self.config.election_timeout_ms)

    def random_backoff(self, steps: int) -> int:
        """A pause of at least the retry backoff; its upper bound doubles with every step."""
        base = self.config.retry_backoff_ms
        longest = min(self.config.election_backoff_max_ms, base << min(steps, 16))
        return base + self.random.randrange(longest)

    def election_pause(self, losses: int, *, is_majority_dead: bool) -> int:
        """The pause after lost elections. While most voters are dead, an election timeout is added once the bound is reached."""
        is_bounded = self.config.retry_backoff_ms << min(losses, 16) >= self.config.election_backoff_max_ms
        return self.random_backoff(losses) + (self.random_election_timeout() if is_majority_dead and is_bounded else 0)

    def send_request(self, peer: int, request: Request, now_ms: MonotonicMs, *, durable: bool = False) -> None:
        """Send a request. A `durable` one waits until everything written so far is durable."""
        send = SendRequest(peer, self.requests.start(peer, now_ms), request)
        if durable:
            self.outbox.send_durable(send)
        else:
            self.outbox.send(send)
