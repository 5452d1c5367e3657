"""Collects the core's outputs, and decides which messages must wait for the disk."""

from isthmus_broker.core.contract import Ready
from isthmus_broker.core.raft.events import Note, RaftReady, Reply, SaveQuorumState, Send, Write


class Outbox:
    """The contents of the next Ready.

    No message may reveal an epoch, a leader or a vote that a crash could revoke: while the quorum state is not durable all messages wait
    for it. Beyond that, only messages sent by `send_durable` wait for the writes before them.
    """

    def __init__(self) -> None:
        self.mark = 1
        """Mark of the Ready being filled."""
        self._persist: list[Write] = []
        self._now: list[Send] = []
        self._after: list[Send] = []
        self._replies: list[Reply] = []
        self._notes: list[Note] = []
        self._persisted_mark = 0
        self._quorum_state_mark = 0

    def write(self, write: Write) -> None:
        self._persist.append(write)
        if isinstance(write, SaveQuorumState):
            self._quorum_state_mark = self.mark

    def send(self, send: Send) -> None:
        """Send a message that depends on durable state only, the quorum state perhaps excepted."""
        (self._now if self._quorum_state_mark <= self._persisted_mark else self._after).append(send)

    def send_durable(self, send: Send) -> None:
        """Send a message that promises that the writes before it are durable."""
        self._after.append(send)

    def reply(self, reply: Reply) -> None:
        self._replies.append(reply)

    def note(self, note: Note) -> None:
        self._notes.append(note)

    def persisted(self, mark: int) -> None:
        assert self._persisted_mark <= mark < self.mark
        self._persisted_mark = mark

    def take(self) -> RaftReady:
        ready: RaftReady = Ready(
            mark=self.mark,
            persist=tuple(self._persist),
            send_now=tuple(self._now),
            send_after_persist=tuple(self._after),
            replies=tuple(self._replies),
            notes=tuple(self._notes),
        )
        if ready:
            self.mark += 1
            for box in (self._persist, self._now, self._after, self._replies, self._notes):
                box.clear()
        return ready
