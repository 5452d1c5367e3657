"""A node's high watermark does not move back while it runs; its epoch never does, not even after a crash."""

from tests.sim.raft_node import RaftNode, Watcher
from tests.sim.world import Violation


class NothingGoesBack(Watcher):
    def __init__(self, nodes: dict[int, RaftNode]) -> None:
        self._nodes = nodes
        self._high_watermarks: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._durable_epochs: dict[int, int] = {}

    def restarted(self, node_id: int) -> None:
        """An epoch that was never durable was never sent to another node, and may be forgotten."""
        self._high_watermarks[node_id] = 0
        self._epochs[node_id] = self._durable_epochs.get(node_id, 0)

    def check(self, node_id: int) -> None:
        node = self._nodes[node_id]
        durable = node.disk.durable.quorum.epoch
        self._rise(self._durable_epochs, node_id, durable, "durable epoch")
        if node.core is not None:
            self._rise(self._epochs, node_id, node.core.epoch, "epoch")
            self._rise(self._high_watermarks, node_id, node.core.high_watermark, "high watermark")

    def _rise(self, known: dict[int, int], node_id: int, value: int, what: str) -> None:
        if value < known.get(node_id, 0):
            raise Violation(f"the {what} of node {node_id} falls from {known[node_id]} to {value}")
        known[node_id] = value
