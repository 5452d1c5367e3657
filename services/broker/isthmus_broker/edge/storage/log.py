"""One partition's log: its segments, producer state and offsets.

Offsets in order: log start ≤ last stable ≤ high watermark ≤ end. The recovery point is the offset below which everything is on disk;
records above it are checked after a crash. Appends go to the page cache; a sync happens when a segment is closed (by the
owner, in a worker thread), when the topic requires it (flush.messages, flush.ms), and for the metadata log on every append.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.markers import marker_of
from isthmus_wire.records import BatchHeader, batches, iterate_records

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.epochs import EpochHistory
from isthmus_broker.core.log.fetched_check import begin_of, check_fetched
from isthmus_broker.core.log.producer_state import AbortedTransaction, ProducerState
from isthmus_broker.core.log.retention import expired
from isthmus_broker.edge.storage.aborted import aborted_in, end_of
from isthmus_broker.edge.storage.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    PRODUCERS_SUFFIX,
    encode_producers,
    newest_producers,
    producer_snapshots,
    write_epochs,
)
from isthmus_broker.edge.storage.durability import ALONE, Durability, LogOwner, Unsynced
from isthmus_broker.edge.storage.files import FilePool, failures_at, remove_if_present, replace_file, sync_path
from isthmus_broker.edge.storage.indexes import OffsetIndex, TimeIndex
from isthmus_broker.edge.storage.segment import SUFFIXES, Placed, Segment, file_name
from isthmus_broker.edge.storage.segment_source import Slice


class Log(Durability):
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
        owner: "LogOwner[Log]" = ALONE,
    ) -> None:
        super().__init__(pool.files)
        self.pool = pool
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id: UUID | None = None
        self.apply_config(config)
        self.epochs = EpochHistory()
        self.producers = ProducerState()
        self.log_start_offset = 0
        self.high_watermark = 0
        self.cleaned_to = 0
        """The offset up to which the cleaner has cleaned the log."""
        self.segments: list[Segment] = []
        self.flushed_ms = now_ms
        self._bases: list[int] = []
        self._tail: Placed | None = None
        self._roll_jitter_ms = 0
        self._markers = 0  # rows in the transaction indexes of all segments
        self._owner = owner

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

    def use_pool(self, pool: FilePool) -> None:
        """Open files through this pool from now on."""
        self.pool = pool
        for segment in self.segments:
            segment.use_pool(pool)

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
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)  # a transaction may begin below the log start

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
        self.note_change(self.directory)
        self.segments.append(segment)
        self._bases.append(base_offset)
        jitter = self.config.segment_jitter_ms
        self._roll_jitter_ms = random.randrange(min(jitter, self.config.max_segment_ms)) if jitter > 0 else 0
        return segment

    def begin_epoch(self, epoch: int) -> None:
        """Record that this leader epoch begins at the log end."""
        if self.epochs.assign_higher(epoch, self.end_offset):
            self.write_epochs()

    def write_epochs(self) -> None:
        """Write the leader epochs; they are durable with the log's next sync, and above the recovery point rebuilt from the batches."""
        write_epochs(self.pool.files, self.directory, self.epochs.entries)
        self.note_change(self.directory / LEADER_EPOCHS, self.directory)

    # -- appending -----------------------------------------------------------------------------------------------------------

    def append_as_given(self, data: memoryview | bytes, now_ms: MonotonicMs) -> None:
        """Append whole batches whose offsets were set elsewhere: by a source, or by the metadata quorum."""
        view = memoryview(data)
        for position, header in batches(view):
            assert header.base_offset >= self.end_offset, f"{header.base_offset} is below the end {self.end_offset}"
            self.append(view[position : position + header.size], header, now_ms)

    def append_as_follower(self, data: memoryview | bytes, leader_epoch: int, now_ms: MonotonicMs) -> None:
        """Append batches from the leader of that epoch unchanged; raises CorruptBatch, and writes nothing, if any is damaged.

        An empty log that starts inside the first batch restarts at the batch's base offset; its start is raised again after the append.
        """
        view, end = memoryview(data), self.end_offset
        begin = begin_of(view, end) if end == self.log_start_offset else end
        checked = check_fetched(view, begin, leader_epoch)
        if checked and begin < end:
            self.restart_at(begin, now_ms)
        for position, header in checked:
            self.append(view[position : position + header.size], header, now_ms)

    def append(self, batch: memoryview | bytearray, header: BatchHeader, now_ms: MonotonicMs) -> None:
        """Append a batch whose offsets are set."""
        if self._must_roll(header, now_ms):
            self.roll(now_ms)
        segment = self.segments[-1]
        position = segment.append(batch, header, self._index_interval)
        self._tail = Placed(position, header)
        if header.leader_epoch > self.epochs.latest_epoch and self.epochs.assign(
            header.leader_epoch, header.base_offset
        ):
            self.write_epochs()
        self._update_producers(header, position, segment)
        if segment.next_offset - self.recovery_point >= self._flush_messages:
            self.flush(now_ms)

    def _update_producers(self, header: BatchHeader, position: int, segment: Segment) -> None:
        """Update the producer state from a batch that was appended, or that is read again at recovery."""
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
        if self.active.ends_in_gap:  # recovery would take the gap between the two segments for damage
            self.flush_now()
            self._owner.offsets_lowered(self)
        self.snapshot_producers()
        self._seal()
        for suffix in SUFFIXES[1:]:
            self.pool.close(str(self.directory / file_name(self.active.base_offset, suffix)))
        self.add_segment(end, now_ms)
        self._owner.segment_closed(self)

    def _seal(self) -> None:
        self.active.seal()
        self.note_change(*self.active.files())
        # Recovery does not check a segment that ends at the recovery point.
        if self.recovery_point == self.end_offset and self.active.make_durable():
            self.note_change(self.directory)

    # -- durability ----------------------------------------------------------------------------------------------------------

    def flush(self, now_ms: MonotonicMs) -> None:
        """Sync everything above the recovery point before returning."""
        self.flush_now()
        self.flushed_ms = now_ms

    def flush_now(self) -> None:
        """Sync without recording the time."""
        for segment in self.segments:
            if segment.next_offset > self.recovery_point and segment.make_durable():
                self.note_change(self.directory)
        self.sync_changes()
        self.recovery_point = self.end_offset

    def unsynced(self, segments: Sequence[Segment], suffixes: tuple[str, ...] = SUFFIXES) -> Unsynced:
        """The files to sync, in any thread, for the first of the log's segments to be durable; `synced` follows."""

        def files() -> list[Path]:
            return [path for one in segments if one.next_offset > self.recovery_point for path in one.files(suffixes)]

        return self.unsynced_with(segments[-1].next_offset, files)

    def _lower_offsets(self, offset: int) -> None:
        """Lower the log's offsets before the records at and above `offset` are removed: what is appended there next is not durable."""
        is_recorded = offset < max(self.recovery_point, self.log_start_offset)
        self.rewind(min(self.recovery_point, offset))
        self.high_watermark = min(self.high_watermark, offset)
        self.cleaned_to = min(self.cleaned_to, offset)
        # With a log start above the log end, every fetch would be out of range.
        self.log_start_offset = min(self.log_start_offset, offset)
        if is_recorded:
            self._owner.offsets_lowered(self)

    def expect_power_loss(self) -> None:
        """Sync the log's small files and its directory's name with the next flush: an earlier process may not have done it."""
        self.note_change(
            self.directory / LEADER_EPOCHS, self.directory / PARTITION_METADATA, self.directory, self.directory.parent
        )

    def snapshot_producers(self, offset: int | None = None) -> None:
        """Write a snapshot of the producer state at the log end, or at `offset`, so that a start need not read the log for it.

        It becomes durable with the log: compaction may remove the batches that it was made from. So one that exists is not replaced.
        """
        path = self.directory / file_name(self.end_offset if offset is None else offset, PRODUCERS_SUFFIX)
        if not self.pool.files.exists(path):
            replace_file(self.pool.files, path, encode_producers(self.producers.active()), durable=False)
            self.note_change(path, self.directory)

    def close(self, now_ms: MonotonicMs) -> None:
        """Sync and close the log, so that the next start only reads its indexes."""
        self._seal()
        self.snapshot_producers()
        self.flush(now_ms)
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

    def aborted_in(self, first_offset: int, read: Slice) -> list[AbortedTransaction]:
        """The aborted transactions that a `read_committed` consumer of that read must know; some may begin after it."""
        return self.aborted_between(first_offset, end_of(read, self)) if self._markers else []

    def aborted_between(self, first_offset: int, upper: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in the range."""
        number = max(bisect_right(self._bases, first_offset) - 1, 0)
        return aborted_in(self.segments[number:], first_offset, upper) if self._markers else []

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
                self.write_epochs()
            return
        if self.segments[0].base_offset > end_offset:
            self.restart_at(end_offset, now_ms)
            return
        self._lower_offsets(end_offset)
        self.remove_segments(max(bisect_left(self._bases, end_offset), 1))
        self.active.truncate(end_offset, self.config.index_interval_bytes)
        end_offset = self.end_offset  # lower, if a batch contained it
        self._tail = None
        self._lower_offsets(end_offset)
        # A removed batch or segment must not return before new ones: recovery could not detect it.
        self.active.make_durable()
        sync_path(self.pool.files, self.directory)
        if self.epochs.truncate_from_end(end_offset):
            self.write_epochs()
        self.drop_producer_snapshots(above=end_offset)
        self.rebuild_producers()

    def restart_at(self, offset: int, now_ms: MonotonicMs) -> None:
        """Delete everything and start empty at `offset`."""
        with failures_at(self.directory):
            self.sync_changes()  # the topic id: a log with a recovery point above 0 has one
        self.rewind(offset)
        self.log_start_offset = self.high_watermark = offset
        self.cleaned_to = min(self.cleaned_to, offset)
        self._owner.offsets_lowered(self)
        self.drop_producer_snapshots(above=-1)
        self.remove_segments(0)
        self.epochs = EpochHistory()
        self.write_epochs()
        # Neither snapshots nor segments may return behind the new start, nor epochs at it.
        sync_path(self.pool.files, self.directory)
        self.add_segment(offset, now_ms)
        self.producers = ProducerState()

    def rebuild_producers(self) -> None:
        """Rebuild the producer state at the log end from the newest undamaged snapshot and the batches after it, and damaged snapshots."""
        self.producers = ProducerState()
        start = self.segments[0].base_offset
        newest = newest_producers(self.pool.files, self.directory, start, self.end_offset)
        if newest is not None:
            start, producers = newest  # also below the log start: markers there end transactions of the snapshot
            self.producers.restore(producers)
        self.drop_producer_snapshots(above=start)
        bases = [base for base in self._bases if base > start]
        for segment, placed in self.placed_batches(start):
            while bases and bases[0] <= placed.header.base_offset:
                self.snapshot_producers(bases.pop(0))
            self._update_producers(placed.header, placed.position, segment)
        for base in bases:
            self.snapshot_producers(base)

    def count_markers(self) -> None:
        """Count the aborted transactions: without any, reads need not search the transaction indexes."""
        self._markers = sum(len(segment.aborted) for segment in self.segments)

    def drop_producer_snapshots(self, *, above: int) -> None:
        """Remove snapshots of offsets that no longer exist."""
        for path in producer_snapshots(self.pool.files, self.directory):
            if int(path.stem) > above:
                remove_if_present(self.pool.files, path)
                self.note_change(self.directory)

    def raise_start(self, offset: int) -> None:
        """Delete records below `offset`; the next retention run removes their segments."""
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        if self.epochs.truncate_from_start(offset):
            self.write_epochs()

    def raise_start_by_retention(self, now: Now) -> str:
        """Raise the log start offset past the segments that retention deletes; returns the reason if there are any.

        The segments are deleted by `delete_below` when the log start offset is on disk. In this order a crash leaves no gap, and none
        of the deleted records returns.
        """
        config = self.config
        count, reason = expired(
            [segment.facts() for segment in self.segments],
            now_ms=now.wall,
            retention_ms=config.retention_ms if config.deletes else -1,
            retention_bytes=config.retention_bytes if config.deletes else -1,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )
        if count:
            self.raise_start(self._bases[count] if count < len(self._bases) else self.end_offset)
        return reason

    def delete_below(self, offset: int, now_ms: MonotonicMs) -> list[Path]:
        """Mark the segments below a log start offset that is on disk as deleted; returns the files to remove later."""
        if self.active.size and self.end_offset <= offset:
            self.roll(now_ms)
        count = max(bisect_right(self._bases, offset) - 1, 0)  # a log that was restarted meanwhile begins above it
        marked: list[Path] = []
        with failures_at(self.directory):
            for segment in self.segments[:count]:
                marked += segment.mark_deleted()
                path = self.directory / file_name(segment.base_offset, PRODUCERS_SUFFIX)
                remove_if_present(self.pool.files, path)
        if marked:
            self.note_change(self.directory)
            self.adopt(self.segments[count:])
        return marked

    def remove_segments(self, begin: int) -> None:
        """Delete the segments from this one on."""
        for segment in self.segments[begin:]:
            self.remove_files(segment)
        del self.segments[begin:], self._bases[begin:]
        self._tail = None

    def remove_files(self, segment: Segment) -> None:
        """Delete a segment's files."""
        with failures_at(self.directory):
            for path in segment.mark_deleted():
                remove_if_present(self.pool.files, path)
        self.note_change(self.directory)
