"""Committed entries never change and never vanish: all nodes commit the same entries, every leader has them, and acknowledgements match."""

import zlib

from isthmus_broker.core.raft.types import Entry, SnapshotId

from tests.sim.raft_node import RaftNode, Watcher
from tests.sim.world import Violation


class CommittedStays(Watcher):
    def __init__(self, nodes: dict[int, RaftNode]) -> None:
        self._nodes = nodes
        self._truth: dict[int, Entry] = {}  # base offset -> entry, as first committed by any node
        self._digests: dict[int, int] = {0: 0}  # end offset -> digest of all entries before it
        self._end = 0
        self._epochs: list[
            tuple[int, int]
        ] = []  # end offset, and the epoch in which the entries before it were committed
        self._leads: dict[int, int] = {}  # node -> last epoch in which it was leader
        self.acknowledged_offsets: list[int] = []

    @property
    def end(self) -> int:
        return self._end

    def committed(self, node_id: int, entries: tuple[Entry, ...]) -> None:
        for entry in entries:
            if self._truth.setdefault(entry.base_offset, entry) != entry:
                truth = self._truth[entry.base_offset]
                raise Violation(f"node {node_id} commits {entry} where {truth} is committed")
            if entry.base_offset == self._end:
                self._end = entry.last_offset + 1
                self._digests[self._end] = zlib.crc32(entry.payload, self._digests[entry.base_offset])
                core = self._nodes[node_id].core
                assert core is not None
                self._epochs.append((self._end, core.epoch))

    def loaded(self, node_id: int, snapshot: SnapshotId, digest: int) -> None:
        if self._digests.get(snapshot.end_offset) != digest:
            raise Violation(f"node {node_id} loads {snapshot}, which differs from the committed entries")

    def acknowledged(self, token: int, base_offset: int, payload: bytes) -> None:
        truth = self._truth.get(base_offset)
        if truth is None or truth.payload != payload:
            raise Violation(f"append {token} is acknowledged at {base_offset}, where {truth} is committed")
        self.acknowledged_offsets.append(base_offset)

    def check(self, node_id: int) -> None:
        """A new leader has all entries that were committed in its epoch or before.

        A leader of an earlier epoch than the current one may be missing some: its votes were delayed, and it can commit nothing.
        """
        node = self._nodes[node_id]
        if node.core is None or not node.core.is_leader or self._leads.get(node_id) == node.core.epoch:
            return
        epoch = self._leads[node_id] = node.core.epoch
        end = max((end for end, committed_in in self._epochs if committed_in <= epoch), default=0)
        image = node.disk.seen
        if image.log_end < end:
            raise Violation(f"node {node_id} leads epoch {epoch} without {image.log_end} to {end}")
        for entry in image.entries:
            truth = self._truth.get(entry.base_offset)
            if truth is not None and entry.base_offset < end and truth != entry:
                raise Violation(f"node {node_id} leads epoch {epoch} with {entry} where {truth} is committed")
