"""A node votes at most once per epoch, and only after the vote is durable."""

from isthmus_broker.core.raft.events import Send, SendRequest
from isthmus_broker.core.raft.messages import VoteRequest, VoteResponse

from tests.sim.raft_node import RaftNode, Watcher
from tests.sim.world import Violation


class OneVotePerEpoch(Watcher):
    def __init__(self, nodes: dict[int, RaftNode]) -> None:
        self._nodes = nodes
        self._votes: dict[tuple[int, int], int] = {}

    def sent(self, node_id: int, send: Send) -> None:
        """Requesting votes is a vote for oneself."""
        core = self._nodes[node_id].core
        if isinstance(send, SendRequest):
            if isinstance(send.request, VoteRequest) and not send.request.pre_vote:
                self._vote(node_id, send.request.epoch, node_id)
        elif isinstance(send.response, VoteResponse) and send.response.granted and core is not None:
            voted = core.quorum_state.voted
            if voted is not None and core.epoch == send.response.epoch:
                self._vote(node_id, core.epoch, voted.node_id)

    def _vote(self, node_id: int, epoch: int, candidate: int) -> None:
        first = self._votes.setdefault((node_id, epoch), candidate)
        if first != candidate:
            raise Violation(f"node {node_id} votes for {first} and {candidate} in epoch {epoch}")
