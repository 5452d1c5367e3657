"""A planted bug: votes, and everything else that must wait for the disk, leave before it is written. The sweep must find it."""

from dataclasses import replace

from isthmus_broker.core.raft.events import RaftReady

from tests.sim.raft_node import RaftNode


class ImpatientNode(RaftNode):
    def store(self, ready: RaftReady) -> None:
        self.send_all(ready.send_after_persist)
        super().store(replace(ready, send_after_persist=()))
