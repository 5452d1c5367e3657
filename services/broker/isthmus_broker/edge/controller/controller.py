"""The controller on this node: runs operations on the newest image, writes their records through raft, and publishes images.

An operation is a pure function from an image and a request to records and a response. It runs only while this node is the quorum's leader.
Its records are visible to the next operation at once; its response is sent when they are committed.
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
from isthmus_broker.edge.quorum.raft_driver import RaftDriver, RaftRefused, RaftStopped

logger = logging.getLogger(__name__)

SNAPSHOT_BATCH_RECORDS: Final = 1_000
R = TypeVar("R")
Operation = Callable[[ClusterImage], Result[R]]


class NotController(Exception):
    """This node is not the quorum's leader, or lost leadership before the outcome was known."""


class Controller:
    """The state machine of the metadata log, and the way to change it."""

    def __init__(
        self,
        node_id: int,
        publish: Callable[[Published], None],
        on_leader: Callable[[bool], None],
        clock: WallClock,
    ) -> None:
        """`on_leader` is called at every change of leader, with whether this node is the leader now."""
        self.history = ImageHistory()
        self.raft: RaftDriver | None = None
        self._node_id = node_id
        self._publish = publish
        self._clock = clock
        self._on_leader = on_leader
        self.leads = False
        self.leader_id: int | None = None
        self._unsettled: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Responses without records that depend on uncommitted ones, and the offset at which these are committed."""

    async def run(self, operation: Operation[R]) -> R:
        """Decide, append, wait for the commit, and return the response, of the last step of several; raises NotController."""
        while not (result := await self._run_step(operation)).is_complete:
            pass
        return result.response

    async def _run_step(self, operation: Operation[R]) -> Result[R]:
        raft = self.raft
        if raft is None or not self.leads or not raft.core.is_leader:
            raise NotController
        result = operation(self.history.latest)
        if not result.records:
            await self._settled()
            return result
        appended = [raft.upgrade_kraft_version()] if result.upgrades_quorum else []
        appended.append(self._append(raft, result.records))
        try:
            await asyncio.gather(*appended)
        except RaftRefused as refused:
            raise NotController(refused.error.name) from refused
        except RaftStopped as stopped:
            raise NotController("this node's metadata log is closed or has failed") from stopped
        return result

    def _append(self, raft: RaftDriver, records: Sequence[MetadataRecord]) -> "asyncio.Future[int]":
        """Append one batch, and apply it to the newest image; the future is done when the batch is committed."""
        done = raft.append(batch_of(records, self._clock()), len(records))
        if raft.core.is_leader and not (done.done() and done.exception()):
            last_offset = raft.core.log_end - 1
            if last_offset > self.history.latest_offset:  # otherwise it is committed already and has been applied
                self.history.append(records, last_offset)
        return done

    async def _settled(self) -> None:
        """Wait until everything in this controller's image is committed; raises NotController.

        A response from uncommitted state could, for instance, confirm a change of partition to its leader; after a failover that change
        would never appear in the metadata.
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
        """Apply a committed batch, unless it was applied when it was appended."""
        if header_at(batch).is_control:
            return
        if last_offset > self.history.latest_offset:
            self.history.append(list(records_of([batch])), last_offset)
        published = self.history.commit(last_offset)
        if published is not None:
            self._publish(published)
        self._settle()

    def load_snapshot(self, snapshot_id: SnapshotId, batches: Iterator[bytes]) -> None:
        """Replace the image by a snapshot."""
        self._publish(self.history.load_snapshot(records_of(batches), snapshot_id.end_offset - 1))

    def snapshot(self, snapshot_id: SnapshotId) -> Iterable[bytes]:
        """The committed image, which is immutable, as batches."""
        return _snapshot_batches(self.history.committed, self._clock())

    def leader_changed(self, epoch: int, leader_id: int | None) -> None:
        """Start or stop being the leader. Raft reports this node's own leadership only after everything committed before it has been
        applied."""
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
    """The metadata records in batches, without raft's own."""
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
