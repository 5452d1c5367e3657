"""One partition's log: its segments, producer state and offsets.

Offsets in order: log start ≤ last stable ≤ high watermark ≤ end. The recovery point is the offset below which everything is on disk;
records above it are checked after a crash. Appends go to the page cache; a sync happens when a segment is closed (in a worker thread,
by `on_sealed`), when the topic requires it (flush.messages, flush.ms), and for the metadata log on every append.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.markers import marker_of
from isthmus_wire.records import BatchHeader, batches, iterate_records

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.epochs import EpochHistory
from isthmus_broker.core.log.fetched_check import check_fetched
from isthmus_broker.core.log.producer_state import AbortedTransaction, ProducerState
from isthmus_broker.core.log.retention import expired
from isthmus_broker.edge.storage.checkpoints import decode_producers, encode_producers, write_epochs
from isthmus_broker.edge.storage.files import FilePool, remove_if_present, replace_file, sync_path
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.indexes import OffsetIndex, TimeIndex
from isthmus_broker.edge.storage.segment import SUFFIXES, Placed, Segment, file_name
from isthmus_broker.edge.storage.segment_source import Slice

PRODUCERS_SUFFIX: Final = ".snapshot"
CLEANED_DIRECTORY: Final = "cleaned"
SWAP_PREFIX: Final = "swap-"


class Log:
    """An open log directory of a partition; `recovery.open_log` opens it."""

    def __init__(
        self,
        pool: FilePool,
        directory: Path,
        topic: str,
        partition: int,
        config: TopicConfig,
        *,
        now_ms: MonotonicMs,
        on_sealed: Callable[["Log"], None] | None = None,
    ) -> None:
        """`on_sealed` makes a closed segment durable; without it the log syncs at once."""
        self.pool = pool
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id: UUID | None = None
        self.apply_config(config)
        self.epochs = EpochHistory()
        self.producers = ProducerState()
        self.log_start_offset = 0
        self.recovery_point = 0
        self.high_watermark = 0
        self.cleaned_to = 0
        """The offset up to which the cleaner has cleaned the log."""
        self.truncations = 0
        """The number of truncations since the log was opened."""
        self.segments: list[Segment] = []
        self.flushed_ms = now_ms
        self._bases: list[int] = []
        self._tail: Placed | None = None
        self._roll_jitter_ms = 0
        self._directory_synced_for = -1  # base offset of the segment whose directory entry is on disk
        self._markers = 0  # rows in the transaction indexes of all segments
        self._on_sealed = on_sealed or Log.flush_now

    def apply_config(self, config: TopicConfig) -> None:
        """Apply these settings."""
        self.config = config
        self._segment_size = config.segment_size
        self._segment_ms = config.max_segment_ms
        self._index_interval = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        # Entries at which an index counts as full; the time index keeps room for its final entry.
        self._offset_entries_max = config.segment_index_bytes // OffsetIndex.ENTRY_SIZE
        self._time_entries_max = config.segment_index_bytes // TimeIndex.ENTRY_SIZE - 1

    # -- state ---------------------------------------------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        """The segment that receives appends."""
        return self.segments[-1]

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.segments[-1].next_offset

    @property
    def last_batch(self) -> BatchHeader | None:
        """The header of the last batch; None if the log is empty."""
        located = self._locate(self.end_offset - 1) if self.end_offset > self.log_start_offset else None
        return None if located is None else located[1].header

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which `read_committed` consumers may read."""
        first_open = self.producers.first_open_offset()
        return self.high_watermark if first_open is None else min(first_open, self.high_watermark)

    def adopt(self, segments: Sequence[Segment]) -> None:
        """Set the segments, in order; at least one."""
        self.segments = list(segments)
        self._bases = [segment.base_offset for segment in self.segments]
        self._tail = None

    def add_segment(self, base_offset: int, now_ms: MonotonicMs) -> Segment:
        """Add an empty segment at the end."""
        segment = Segment(self.pool, self.directory, base_offset, created_ms=now_ms)
        if self.config.preallocate:
            segment.preallocate(self.config.segment_bytes)
        self.segments.append(segment)
        self._bases.append(base_offset)
        jitter = self.config.segment_jitter_ms
        self._roll_jitter_ms = random.randrange(min(jitter, self.config.max_segment_ms)) if jitter > 0 else 0
        return segment

    def begin_epoch(self, epoch: int) -> None:
        """Record that this leader epoch begins at the log end."""
        if epoch > self.epochs.latest_epoch and self.epochs.assign(epoch, self.end_offset):
            write_epochs(self.pool.files, self.directory, self.epochs.entries)

    # -- appending -----------------------------------------------------------------------------------------------------------

    def append_as_given(self, data: memoryview | bytes, now_ms: MonotonicMs) -> None:
        """Append whole batches whose offsets were set elsewhere: by a source, or by the metadata quorum."""
        view = memoryview(data)
        for position, header in batches(view):
            assert header.base_offset >= self.end_offset, f"{header.base_offset} is below the end {self.end_offset}"
            self.append(view[position : position + header.size], header, now_ms)

    def append_as_follower(self, data: memoryview | bytes, leader_epoch: int, now_ms: MonotonicMs) -> None:
        """Append batches from the leader of that epoch unchanged; raises CorruptBatch, and writes nothing, if any is damaged."""
        view = memoryview(data)
        for position, header in check_fetched(view, self.end_offset, leader_epoch):
            self.append(view[position : position + header.size], header, now_ms)

    def append(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: MonotonicMs) -> None:
        """Append a batch whose offsets are set."""
        if self._must_roll(header, now_ms):
            self.roll(now_ms)
        segment = self.segments[-1]
        position = segment.append(batch, header, self._index_interval)
        self._tail = Placed(position, header)
        self.update_state(header, position, segment)
        if segment.next_offset - self.recovery_point >= self._flush_messages:
            self.flush(now_ms)

    def update_state(self, header: BatchHeader, position: int, segment: Segment) -> None:
        """Update the leader epochs and the producer state from a batch that was appended, or that is read again at recovery.

        The epoch history only grows at its end: a batch that is read again belongs to an epoch that it has already.
        """
        if header.leader_epoch > self.epochs.latest_epoch and self.epochs.assign(
            header.leader_epoch, header.base_offset
        ):
            write_epochs(self.pool.files, self.directory, self.epochs.entries)
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.producers.appended(header)
            return
        record = next(iterate_records(segment.read(position, header.size)), None)
        marker = None if record is None else marker_of(header, record)
        if marker is None:
            return  # compaction removed the marker, and with it the whole transaction
        aborted = self.producers.ended(header, committed=marker.committed, coordinator_epoch=marker.coordinator_epoch)
        if aborted is not None and all(row != aborted for row in segment.aborted.rows()):
            segment.aborted.add(aborted)
            self._markers += 1

    def _must_roll(self, header: BatchHeader, now_ms: MonotonicMs) -> bool:
        segment = self.segments[-1]
        if segment.size == 0:
            return not segment.fits(header.last_offset)
        first = segment.first_timestamp
        waited = now_ms - segment.created_ms if first is None or first < 0 else header.max_timestamp - first
        return (
            segment.size + header.size > self._segment_size
            or waited > self._segment_ms - self._roll_jitter_ms
            or segment.offsets.count >= self._offset_entries_max
            or segment.times.count >= self._time_entries_max
            or not segment.fits(header.last_offset)
        )

    def roll(self, now_ms: MonotonicMs) -> None:
        """Close the active segment and start a new one."""
        end = self.end_offset
        self.snapshot_producers()
        self.active.seal()
        for suffix in SUFFIXES[1:]:
            self.pool.close(str(self.directory / file_name(self.active.base_offset, suffix)))
        self.add_segment(end, now_ms)
        self._on_sealed(self)

    # -- durability ----------------------------------------------------------------------------------------------------------

    def flush(self, now_ms: MonotonicMs) -> None:
        """Sync everything above the recovery point before returning."""
        self.flush_now()
        self.flushed_ms = now_ms

    def flush_now(self) -> None:
        """Sync without recording the time."""
        for segment in self.segments:
            if segment.next_offset > self.recovery_point:
                segment.make_durable()
        if self._directory_synced_for != self.active.base_offset:
            sync_path(self.pool.files, self.directory)
            self._directory_synced_for = self.active.base_offset
        self.recovery_point = self.end_offset

    def unsynced_files(self) -> tuple[int, list[Path]]:
        """The closed segments that are not durable yet: the recovery point after their sync, and their files and directory."""
        files: list[Path] = []
        for segment in self.segments[:-1]:
            if segment.next_offset > self.recovery_point:
                files += segment.files()
        return self.active.base_offset, [*files, self.directory]

    def synced_up_to(self, offset: int) -> None:
        """Record that the files below `offset` are durable."""
        self.recovery_point = max(self.recovery_point, min(offset, self.end_offset))

    def snapshot_producers(self) -> None:
        """Write a snapshot of the producer state at the log end, so that a start need not read the log for it."""
        path = self.directory / file_name(self.end_offset, PRODUCERS_SUFFIX)
        replace_file(self.pool.files, path, encode_producers(self.producers.active()), durable=False)

    def close(self, now_ms: MonotonicMs) -> None:
        """Sync and close the log, so that the next start only reads its indexes."""
        self.active.seal()
        self.flush(now_ms)
        self.snapshot_producers()
        for segment in self.segments:
            segment.close()

    # -- reading -------------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, upper: int, *, at_least_one: bool) -> Slice:
        """Batches that start with the one that contains `offset`, and end before `upper`; the offset is in the log.

        With `at_least_one` the first batch is included even if it is larger than `max_bytes`, so that a reader makes progress; without it,
        only batches that fit.
        """
        assert self.log_start_offset <= offset <= self.end_offset
        located = self._locate(offset) if offset < upper else None
        if located is None:
            return Slice(self.active, None, 0)
        segment, first = located
        limit = segment.size if upper >= segment.next_offset else self._position_of(segment, upper)
        size = min(max_bytes, limit - first.position)
        if at_least_one:
            size = min(max(size, first.header.size), limit - first.position)
        elif size < first.header.size:
            size = 0  # never part of a batch
        return Slice(segment, first, max(size, 0))

    def _locate(self, offset: int) -> tuple[Segment, Placed] | None:
        tail = self._tail
        if tail is not None and offset >= tail.header.base_offset:
            return self.active, tail
        number = max(bisect_right(self._bases, offset) - 1, 0)
        for segment in self.segments[number:]:
            placed = segment.locate(offset)
            if placed is not None:
                return segment, placed
        return None

    def _position_of(self, segment: Segment, offset: int) -> int:
        tail = self._tail
        if segment is self.active and tail is not None and offset == tail.header.base_offset:
            return tail.position
        placed = segment.locate(offset)
        return segment.size if placed is None else placed.position

    def aborted_between(self, first_offset: int, upper: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in the range, for `read_committed` consumers."""
        if not self._markers:
            return []
        number = max(bisect_right(self._bases, first_offset) - 1, 0)
        return [
            row
            for segment in self.segments[number:]
            for row in segment.aborted.rows()
            if row.last_offset >= first_offset and row.first_offset < upper
        ]

    def batch_at_time(self, timestamp: int, from_offset: int) -> tuple[BatchHeader, bytes] | None:
        """The first batch that may have a record at or after `from_offset` that is not earlier than `timestamp`."""
        for segment in self.segments:
            if segment.largest_timestamp < timestamp or segment.next_offset <= from_offset:
                continue
            placed = segment.batch_at_time(timestamp, from_offset)
            if placed is not None:
                return placed.header, segment.read(placed.position, placed.header.size)
        return None

    def latest_batch(self) -> tuple[BatchHeader, bytes] | None:
        """The first batch with the largest timestamp of the log."""
        newest = max(self.segments, key=lambda segment: (segment.largest_timestamp, -segment.base_offset))
        placed = newest.locate(newest.largest_timestamp_offset) if newest.largest_timestamp >= 0 else None
        return None if placed is None else (placed.header, newest.read(placed.position, placed.header.size))

    def placed_batches(self, from_offset: int) -> Iterator[tuple[Segment, Placed]]:
        """Every batch that ends at or after `from_offset`."""
        number = max(bisect_right(self._bases, from_offset) - 1, 0)
        for segment in self.segments[number:]:
            for placed in segment.headers(segment.offsets.position_for(from_offset)):
                if placed.header.last_offset >= from_offset:
                    yield segment, placed

    # -- truncation and deletion ---------------------------------------------------------------------------------------------

    def truncate_to(self, end_offset: int, now_ms: MonotonicMs) -> None:
        """Remove all records at or above `end_offset`."""
        if end_offset >= self.end_offset:
            # A leader that appended nothing has recorded its epoch at the log end, where the next leader's epoch may begin.
            if self.epochs.truncate_from_end(self.end_offset):
                write_epochs(self.pool.files, self.directory, self.epochs.entries)
            return
        while len(self.segments) > 1 and self.active.base_offset >= end_offset:
            self._bases.pop()
            self._remove_files(self.segments.pop())
        if self.active.base_offset > end_offset:
            self.restart_at(end_offset, now_ms)
            return
        self.active.truncate(end_offset, self.config.index_interval_bytes)
        end_offset = self.end_offset  # lower, if a batch contained it
        self._truncated(end_offset)
        self._tail = None
        self.recovery_point = min(self.recovery_point, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        # With a log start above the log end, every fetch would be out of range.
        self.log_start_offset = min(self.log_start_offset, end_offset)
        if self.epochs.truncate_from_end(end_offset):
            write_epochs(self.pool.files, self.directory, self.epochs.entries)
        self.drop_producer_snapshots(above=end_offset)
        self.rebuild_producers()

    def restart_at(self, offset: int, now_ms: MonotonicMs) -> None:
        """Delete everything and start empty at `offset`."""
        for segment in self.segments:
            self._remove_files(segment)
        self.segments, self._bases, self._tail = [], [], None
        self.add_segment(offset, now_ms)
        self._truncated(offset)
        self.log_start_offset = self.recovery_point = self.high_watermark = offset
        self.epochs = EpochHistory()
        write_epochs(self.pool.files, self.directory, ())
        self.producers = ProducerState()
        self.drop_producer_snapshots(above=-1)

    def _truncated(self, end_offset: int) -> None:
        """Records at and above `end_offset` may be others from now on: the cleaner has not read them."""
        self.cleaned_to = min(self.cleaned_to, end_offset)
        self.truncations += 1

    def rebuild_producers(self) -> None:
        """Rebuild the producer state at the log end from the newest undamaged snapshot and the batches after it."""
        self.producers = ProducerState()
        start = self.log_start_offset
        for path in reversed(self._producer_snapshots()):
            offset = int(path.stem)
            producers = decode_producers(self.pool.files.read_file(path)) if offset <= self.end_offset else None
            if producers is not None:
                self.producers.restore(producers)
                start = offset  # also below the log start: markers there end transactions of the snapshot
                break
        for segment, placed in self.placed_batches(start):
            self.update_state(placed.header, placed.position, segment)

    def count_markers(self) -> None:
        """Count the aborted transactions: without any, reads need not search the transaction indexes."""
        self._markers = sum(len(segment.aborted) for segment in self.segments)

    def drop_producer_snapshots(self, *, above: int) -> None:
        """Remove snapshots of offsets that no longer exist."""
        for path in self._producer_snapshots():
            if int(path.stem) > above:
                remove_if_present(self.pool.files, path)

    def _producer_snapshots(self) -> list[Path]:
        return [path for path in self.pool.files.list(self.directory) if path.suffix == PRODUCERS_SUFFIX]

    def raise_start(self, offset: int) -> None:
        """Delete records below `offset`; the next retention run removes their segments."""
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            write_epochs(self.pool.files, self.directory, self.epochs.entries)

    def delete_expired(self, now: Now) -> tuple[list[Path], str]:
        """Mark the segments that retention deletes; returns the files to remove later, and the reason."""
        config = self.config
        count, reason = expired(
            [segment.facts() for segment in self.segments],
            now_ms=now.wall,
            retention_ms=config.retention_ms if config.deletes else -1,
            retention_bytes=config.retention_bytes if config.deletes else -1,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )
        if count == 0:
            return [], ""
        if count == len(self.segments):
            self.roll(now.monotonic)
        marked: list[Path] = []
        for segment in self.segments[:count]:
            marked += segment.mark_deleted()
            remove_if_present(self.pool.files, self.directory / file_name(segment.base_offset, PRODUCERS_SUFFIX))
        self.adopt(self.segments[count:])
        self.raise_start(self.segments[0].base_offset)
        return marked, reason

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Replace the original segments by a cleaned one, at once for every reader.

        The rename of its directory commits the replacement: if the node crashes before it, the next start removes the cleaned
        segment; if it crashes later, the next start completes the replacement (`recovery.finish_replacement`).
        """
        begin = self.segments.index(old[0])
        assert list(self.segments[begin : begin + len(old)]) == list(old)
        end_offset = old[-1].next_offset
        cleaned.close()
        swap = self.directory / f"{SWAP_PREFIX}{end_offset}"
        self.pool.files.rename(cleaned.directory, swap)
        marked = [path for segment in old for path in segment.mark_deleted()]
        move_swapped(self.pool.files, swap)
        fresh = Segment(self.pool, self.directory, cleaned.base_offset, created_ms=cleaned.created_ms)
        fresh.next_offset = end_offset
        fresh.first_timestamp = old[0].first_timestamp
        self.adopt([*self.segments[:begin], fresh, *self.segments[begin + len(old) :]])
        self.count_markers()
        for path in marked:
            remove_if_present(self.pool.files, path)

    def _remove_files(self, segment: Segment) -> None:
        for path in segment.mark_deleted():
            remove_if_present(self.pool.files, path)


def move_swapped(files: FileSystem, swap: Path) -> None:
    """Move a cleaned segment's files into the log directory, the log file last: until then the move is incomplete."""
    for path in sorted(files.list(swap), key=lambda path: path.suffix == SUFFIXES[0]):
        files.rename(path, swap.parent / path.name)
    files.remove_directory(swap)
