"""The controller on this node: operations over the newest image, their records through raft, images to everyone who follows.

An operation is a pure function from an image and a request to records and a response. It runs only while this node leads the quorum;
its records count for the next operation at once, and its response is given when they are committed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from isthmus_model.clocks import WallClock, WallMs
from isthmus_wire.records import NewRecord, build_batch, header_at, iterate_records

from isthmus_broker.core.metadata.history import ImageHistory, Published
from isthmus_broker.core.metadata.image import ClusterImage, snapshot
from isthmus_broker.core.metadata.records import decode_record, encode_record
from isthmus_broker.core.metadata.result import Result
from isthmus_broker.core.metadata.schema import MetadataRecord
from isthmus_broker.core.raft.types import SnapshotId
from isthmus_broker.edge.quorum.raft_driver import RaftDriver, RaftRefused

logger = logging.getLogger(__name__)

SNAPSHOT_BATCH_RECORDS: Final = 1_000
R = TypeVar("R")
Operation = Callable[[ClusterImage], Result[R]]


class NotController(Exception):
    """This node does not lead the quorum, or lost it before the outcome was known."""


class Controller:
    """The state machine over the metadata log, and the way to change it."""

    def __init__(
        self,
        node_id: int,
        publish: Callable[[Published], None],
        on_leader: Callable[[bool], None],
        clock: WallClock,
    ) -> None:
        """`on_leader` is told of every change of leader, and whether this node leads now."""
        self.history = ImageHistory()
        self.raft: RaftDriver | None = None
        self._node_id = node_id
        self._publish = publish
        self._clock = clock
        self._on_leader = on_leader
        self.leads = False
        self.leader_id: int | None = None
        self._unsettled: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Answers without records that say what is not committed yet, and the offset with which it is."""

    async def run(self, operation: Operation[R]) -> R:
        """Decide, append, wait for the commit, and return the response; raises NotController."""
        raft = self.raft
        if raft is None or not self.leads or not raft.core.is_leader:
            raise NotController
        result = operation(self.history.latest)
        if not result.records:
            await self._settled()
            return result.response
        done = raft.append(batch_of(result.records, self._clock()), len(result.records))
        if raft.core.is_leader and not (done.done() and done.exception()):
            last_offset = raft.core.log_end - 1
            if last_offset > self.history.latest_offset:  # else the commit came at once and has applied it
                self.history.append(result.records, last_offset)
        try:
            await done
        except RaftRefused as refused:
            raise NotController(refused.error.name) from refused
        return result.response

    async def _settled(self) -> None:
        """Waits until everything this controller knows is committed; raises NotController.

        An answer from what may still be lost would tell a leader, for instance, that its partition has changed and the metadata will say
        how; after a failover it never would.
        """
        offset = self.history.latest_offset
        if offset > self.history.committed_offset:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._unsettled.append((offset, waiting))
            await waiting

    def _settle(self, *, lost: bool = False) -> None:
        while self._unsettled and (lost or self._unsettled[0][0] <= self.history.committed_offset):
            _, waiting = self._unsettled.popleft()
            if waiting.done():
                continue
            if lost:
                waiting.set_exception(NotController())
            else:
                waiting.set_result(None)

    # -- raft's state machine ------------------------------------------------------------------------------------------------

    def committed(self, batch: bytes, base_offset: int, last_offset: int, epoch: int) -> None:
        """A batch is committed: apply it, unless it was applied when it was appended."""
        if header_at(batch).is_control:
            return
        if last_offset > self.history.latest_offset:
            self.history.append(list(records_of([batch])), last_offset)
        published = self.history.commit(last_offset)
        if published is not None:
            self._publish(published)
        self._settle()

    def load_snapshot(self, snapshot_id: SnapshotId, batches: Iterator[bytes]) -> None:
        """A snapshot takes the place of what is known."""
        self._publish(self.history.load_snapshot(records_of(batches), snapshot_id.end_offset - 1))

    def snapshot(self, snapshot_id: SnapshotId) -> Iterable[bytes]:
        """The committed image, which never changes, as batches."""
        return _snapshot_batches(self.history.committed, self._clock())

    def leader_changed(self, epoch: int, leader_id: int | None) -> None:
        """Leadership came or went. Raft tells of this node's own only when everything committed before it has been applied."""
        leads = leader_id == self._node_id
        if self.leads and not leads:
            self.history.revert()
            self._settle(lost=True)
        self.leads, self.leader_id = leads, leader_id
        self._on_leader(leads)


def batch_of(records: Sequence[MetadataRecord], now: WallMs) -> bytes:
    """One batch of metadata records."""
    return build_batch([NewRecord(None, encode_record(record), now) for record in records])


def records_of(batches: Iterable[bytes]) -> Iterator[MetadataRecord]:
    """The metadata records in batches, raft's own left out."""
    for batch in batches:
        if not header_at(batch).is_control:
            for record in iterate_records(batch):
                yield decode_record(record.value or b"")


def _snapshot_batches(image: ClusterImage, timestamp: WallMs) -> Iterator[bytes]:
    chunk: list[NewRecord] = []
    for record in snapshot(image):
        chunk.append(NewRecord(None, encode_record(record), timestamp))
        if len(chunk) == SNAPSHOT_BATCH_RECORDS:
            yield build_batch(chunk)
            chunk = []
    if chunk:
        yield build_batch(chunk)
