"""A planted defect: votes, and other messages that must wait for the disk, are sent before the write. The sweep must detect it."""

from dataclasses import replace

from isthmus_broker.core.raft.events import RaftReady

from tests.sim.raft_node import RaftNode


class ImpatientNode(RaftNode):
    def store(self, ready: RaftReady) -> None:
        self.send_all(ready.send_after_persist)
        super().store(replace(ready, send_after_persist=()))
