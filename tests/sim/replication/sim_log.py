"""A log on a simulated disk, with the interface that the product's partition needs, over a list of records.

A record is (leader epoch, producer, sequence, append number); the append number makes every append unique. When a process dies, its log
only loses the newest checkpoints of the high watermark; when a machine dies, it loses data that was not synced.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Final, Protocol, cast

from isthmus_broker.core.log.epochs import EpochHistory
from isthmus_broker.edge.storage.segment import Placed
from isthmus_broker.edge.storage.segment_source import RangeReader, Slice
from isthmus_wire.records import BatchHeader

RECORD_BYTES: Final = 100
Record = tuple[int, int, int, int]
_NO_HEADER: Final = cast(BatchHeader, None)
"""Records have no batches here."""
Key = str
"""A topic: each has one partition."""


class LogWatcher(Protocol):
    """Observer of logs."""

    def appended(self, log: SimLog, first: int) -> None:
        """The records from `first` on are new."""

    def watermark_moved(self, log: SimLog, before: int, after: int) -> None:
        """The high watermark has changed, by an append or a fetch."""

    def cut(self, log: SimLog, end_offset: int) -> None:
        """The log is about to be truncated to `end_offset`."""


class SimLog:
    """One replica's log."""

    config = SimpleNamespace(leader_replication_throttled_replicas=(), follower_replication_throttled_replicas=())

    def __init__(self, broker_id: int, topic: Key, watcher: LogWatcher) -> None:
        self.broker_id = broker_id
        self.topic = topic
        self.records: list[Record] = []
        self.base = 0
        """Offset of the first record in the list; records that retention deletes stay in it, but are not readable."""
        self.log_start_offset = 0
        self.epochs = EpochHistory()
        self.synced = 0
        self.checkpointed = 0
        self._high_watermark = 0
        self._watcher = watcher

    @property
    def end_offset(self) -> int:
        return self.base + len(self.records)

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        before, self._high_watermark = self._high_watermark, offset
        if offset != before:
            self._watcher.watermark_moved(self, before, offset)

    def begin_epoch(self, epoch: int) -> None:
        if epoch > self.epochs.latest_epoch:
            self.epochs.assign(epoch, self.end_offset)

    # -- records -------------------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        first = self.end_offset
        for offset, record in enumerate(records, first):
            self.epochs.assign(record[0], offset)
        self.records += records
        self._watcher.appended(self, first)

    def append_as_follower(self, records: Sequence[Record], leader_epoch: int, now_ms: int) -> None:
        sound = [record for record in records if record[0] <= leader_epoch]
        if len(sound) < len(records):
            sound = list(records[: next(i for i, record in enumerate(records) if record[0] > leader_epoch)])
        if sound:
            self.append(sound)

    def read(self, offset: int | float, max_bytes: int, upper: int = -1, *, at_least_one: bool = False) -> object:
        """As a log, return the position of the requested records; as a segment, without the last two arguments, the records."""
        start = int(offset)
        if upper < 0:
            return self.records[start - self.base : start - self.base + max_bytes]
        assert self.log_start_offset <= start <= self.end_offset
        count = min(max_bytes // RECORD_BYTES, upper - start)
        if at_least_one and start < upper:
            count = max(count, 1)
        return Slice(cast(RangeReader, self), Placed(start, _NO_HEADER), max(count, 0))

    @property
    def last_stable_offset(self) -> int:
        return self._high_watermark

    def truncate_to(self, end_offset: int, now_ms: int) -> None:
        if end_offset >= self.end_offset:
            self.epochs.truncate_from_end(self.end_offset)
            return
        if end_offset < self.base:
            self.restart_at(end_offset, now_ms)
            return
        self._watcher.cut(self, end_offset)
        del self.records[end_offset - self.base :]
        self._high_watermark = min(self._high_watermark, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.synced = min(self.synced, end_offset)
        self.epochs.truncate_from_end(end_offset)

    def restart_at(self, offset: int, now_ms: int) -> None:
        self.records.clear()
        self.base = self.log_start_offset = self._high_watermark = self.synced = offset
        self.epochs = EpochHistory()

    def raise_start(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)

    def last_sequence(self, producer: int) -> tuple[int, int] | None:
        """The newest record of a producer: its sequence and offset."""
        for index in range(len(self.records) - 1, -1, -1):
            if self.records[index][1] == producer:
                return self.records[index][2], self.base + index
        return None

    # -- the disk ------------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        self.synced = self.end_offset

    def checkpoint(self) -> None:
        self.checkpointed = self._high_watermark

    def lose_unsynced(self, random: Random) -> bool:
        """Stop the machine: it loses some, all or none of the records that were not synced; returns whether any were lost."""
        low, before = max(self.synced, self.base), self.end_offset
        del self.records[low + random.randrange(before - low + 1) - self.base :]
        return self.end_offset < before

    def reopen(self) -> None:
        """Load the log as a new process would."""
        self.synced = min(self.synced, self.end_offset)
        self.log_start_offset = min(self.log_start_offset, self.end_offset)
        self._high_watermark = max(self.log_start_offset, min(self.checkpointed, self.end_offset))
        self.epochs.truncate_from_end(self.end_offset)
