"""At most one leader per epoch."""

from tests.sim.raft_node import RaftNode
from tests.sim.world import Violation


class OneLeaderPerEpoch:
    def __init__(self, nodes: dict[int, RaftNode]) -> None:
        self._nodes = nodes
        self._leaders: dict[int, int] = {}

    def check(self, node_id: int) -> None:
        core = self._nodes[node_id].core
        if core is not None and core.is_leader:
            first = self._leaders.setdefault(core.epoch, node_id)
            if first != node_id:
                raise Violation(f"nodes {first} and {node_id} both lead epoch {core.epoch}")
