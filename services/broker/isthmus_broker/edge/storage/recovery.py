"""Opens logs: after a clean shutdown from their indexes alone, after a crash with a check of all batches above the recovery point.

The log is truncated at the first batch that is torn, has a wrong checksum, or an offset or epoch below the one before: it was never
durable, and the batches after it cannot be trusted. Of files that were not synced a power loss leaves any part, so what is derived from the
batches (indexes, leader epochs, producer snapshots) is rebuilt above the recovery point.
"""

import errno
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import WireError
from isthmus_wire.records import BatchHeader, checksum_matches

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.epochs import UNDEFINED_EPOCH, EpochHistory
from isthmus_broker.edge.storage.checkpoints import (
    PARTITION_METADATA,
    read_epochs,
    read_topic_id,
    write_topic_id,
)
from isthmus_broker.edge.storage.durability import ALONE, LogOwner
from isthmus_broker.edge.storage.failed_syncs import rewrite_failed_syncs
from isthmus_broker.edge.storage.files import DiskFailure, FilePool, failures_at, sync_path
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.replacement import CLEANED_DIRECTORY, SWAP_PREFIX, finish_replacement, segment_bases
from isthmus_broker.edge.storage.segment import DELETED_SUFFIX, SUFFIXES, Placed, Segment

OnSegment = Callable[[int, int, int], None]
"""Called with a segment's base offset, its number from 1, and the number of segments of the log."""


class Recovered(NamedTuple):
    """The result of opening a log, for the log line and for tests."""

    bytes_checked: int
    bytes_truncated: int


def create_log(
    pool: FilePool,
    directory: Path,
    topic: str,
    partition: int,
    config: TopicConfig,
    topic_id: UUID | None,
    *,
    now_ms: MonotonicMs,
    owner: LogOwner[Log] = ALONE,
) -> Log:
    """Create an empty log; raises DiskFailure."""
    with failures_at(directory):
        pool.files.make_directory(directory, exist_ok=False)
    log = Log(pool, directory, topic, partition, config, now_ms=now_ms, owner=owner)
    if topic_id is not None:
        identify(log, topic_id)
    log.pool.descriptor(str(log.add_segment(0, now_ms).path))
    log.expect_power_loss()
    return log


def identify(log: Log, topic_id: UUID) -> None:
    """Record the topic id of a log that is new or has lost it; raises DiskFailure."""
    with failures_at(log.directory):
        write_topic_id(log.pool.files, log.directory, topic_id)
    log.topic_id = topic_id
    log.note_change(log.directory / PARTITION_METADATA, log.directory)


def open_log(
    pool: FilePool,
    directory: Path,
    topic: str,
    partition: int,
    config: TopicConfig,
    *,
    now_ms: MonotonicMs,
    clean: bool,
    recovery_point: int | None = 0,
    log_start_offset: int = 0,
    owner: LogOwner[Log] = ALONE,
    on_segment: OnSegment = lambda _base_offset, _number, _segments: None,
) -> tuple[Log, Recovered]:
    """Open the log in `directory`; `clean` after a clean shutdown. The recovery point is None if its checkpoint is missing.

    Raises DiskFailure. `on_segment` is called before each segment that is checked.
    """
    with failures_at(directory):
        rewrite_failed_syncs(pool.files, directory)
        log = Log(pool, directory, topic, partition, config, now_ms=now_ms, owner=owner)
        try:
            recovered = _load(
                log,
                now_ms=now_ms,
                clean=clean,
                recovery_point=recovery_point,
                start=log_start_offset,
                on_segment=on_segment,
            )
        except WireError as error:
            raise DiskFailure(directory, OSError(errno.EIO, str(error))) from error
    return log, recovered


def _load(
    log: Log, *, now_ms: MonotonicMs, clean: bool, recovery_point: int | None, start: int, on_segment: OnSegment
) -> Recovered:
    pool, directory = log.pool, log.directory
    durable_end = recovery_point or 0
    log.topic_id = read_topic_id(pool.files, directory)
    remove_leftovers(pool.files, directory)
    log.adopt([Segment(pool, directory, base, created_ms=now_ms) for base in segment_bases(pool.files, directory)])
    if not clean and recovery_point is not None:
        _remove_headless(log, max(start, durable_end))
    _remove_below(log, start)
    log.log_start_offset = start
    recovered = _settle(log, clean=clean, recovery_point=durable_end, on_segment=on_segment)
    if not log.segments or log.end_offset < start:
        # Not below the recovery point on disk: what is appended and torn there would count as damage of durable records.
        log.restart_at(max(start, durable_end), now_ms)
        pool.descriptor(str(log.active.path))
    log.log_start_offset = max(start, log.segments[0].base_offset)
    log.recovery_point = log.end_offset if clean else min(durable_end, log.end_offset)
    log.high_watermark = log.log_start_offset
    if not clean:
        log.expect_power_loss()
    log.drop_producer_snapshots(
        above=log.recovery_point
    )  # above the log end, they would later count as of other records
    _restore_epochs(log, log.end_offset if clean else log.recovery_point)
    log.count_markers()
    log.rebuild_producers()
    return recovered


def _remove_headless(log: Log, durable_end: int) -> None:
    """Remove all segments if the first ones are missing: nothing of the log was durable when the power failed."""
    if log.segments and log.segments[0].base_offset > durable_end:
        log.remove_segments(0)


def _remove_below(log: Log, start: int) -> None:
    """Remove the segments below the log start offset: a power loss may take back the deletion of some."""
    below = [segment for segment, following in pairwise(log.segments) if following.base_offset <= start]
    for segment in below:
        log.remove_files(segment)
    log.adopt(log.segments[len(below) :])


def _restore_epochs(log: Log, trusted_end: int) -> None:
    """Restore the leader epochs: below `trusted_end` from their checkpoint, which is durable there, above it from the batches.

    They also come from the batches where the checkpoint does not cover the log: it is damaged, or the log start offset that it was written
    for was lost.
    """
    stored = read_epochs(log.pool.files, log.directory)
    covered_from = stored[0][1] if stored else trusted_end
    log.epochs = EpochHistory()
    for _, placed in log.placed_batches(log.log_start_offset):
        if placed.header.base_offset >= covered_from:
            break
        log.epochs.assign_higher(placed.header.leader_epoch, placed.header.base_offset)
    for epoch, start in stored or ():
        if start < trusted_end:
            log.epochs.assign_higher(epoch, start)
    for _, placed in log.placed_batches(trusted_end):
        log.epochs.assign_higher(placed.header.leader_epoch, placed.header.base_offset)
    log.epochs.truncate_from_start(log.log_start_offset)
    log.epochs.truncate_from_end(log.end_offset)  # an empty log has none
    if stored is None or list(log.epochs.entries) != stored:
        log.write_epochs()


def remove_leftovers(files: FileSystem, directory: Path) -> None:
    """Finish deletions and replacements of the last run, and remove incomplete files and indexes without a segment."""
    for path in files.list(directory):
        if path.name == CLEANED_DIRECTORY:
            files.remove_directory(path)
        elif path.suffix in (DELETED_SUFFIX, ".tmp"):
            files.remove(path)
        elif path.name.startswith(SWAP_PREFIX):
            finish_replacement(files, directory, path)
    bases = set(segment_bases(files, directory))
    for path in files.list(directory):
        if path.suffix in SUFFIXES[1:] and int(path.stem) not in bases:
            files.remove(path)


def _settle(log: Log, *, clean: bool, recovery_point: int, on_segment: OnSegment) -> Recovered:
    """Determine the end of each segment; check every batch above the recovery point of an unclean log."""
    segments = list(log.segments)
    checked = truncated = 0
    epoch = UNDEFINED_EPOCH
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if clean or (next_base is not None and next_base <= recovery_point):
            _trust(log, segment, next_base)
            continue
        on_segment(segment.base_offset, number + 1, len(segments))
        valid_size, checked_bytes, epoch = check_segment(log, segment, recovery_point, epoch, next_base)
        checked += checked_bytes
        torn = segment.size - valid_size
        if torn:
            truncated += torn
            segment.cut(valid_size)
        # A segment begins where the one before it ended. Only the cleaner leaves gaps between segments, below the recovery point.
        if next_base not in (None, segment.next_offset):
            truncated += sum(later.size for later in segments[number + 1 :])
            log.remove_segments(number + 1)
            sync_path(log.pool.files, log.directory)
            break
    return Recovered(checked, truncated)


def _trust(log: Log, segment: Segment, next_base: int | None) -> None:
    interval = log.config.index_interval_bytes
    if next_base is None or (len(segment.offsets) == 0 and segment.size > 2 * interval):
        start = segment.offsets.position_for(2**62 - 1)
        segment.rescan(start, interval)
        segment.read_first_timestamp()
    if next_base is not None:
        segment.next_offset = next_base


class Checked(NamedTuple):
    """The result of checking a segment: the end of its last valid batch, the bytes checked, and the last leader epoch."""

    valid_size: int
    bytes_checked: int
    epoch: int


def check_segment(log: Log, segment: Segment, recovery_point: int, epoch: int, next_base: int | None) -> Checked:
    """Index a segment again up to the first batch that is not valid; checksums are verified above the recovery point.

    Neither the base offset nor the leader epoch is covered by the checksum. A lower epoch is that of a batch that was truncated before the
    power failed. Offsets may jump in a log that is or once was compacted, here or at the leader; what follows must confirm it.
    Raises DiskFailure if batches from the log start offset to the recovery point, which were durable, cannot be read.
    """
    interval = log.config.index_interval_bytes
    segment.clear_indexes(recovery_point)
    expected, end, checked = segment.base_offset, 0, 0
    for placed, following in pairwise(chain(segment.headers(), (None,))):
        assert placed is not None
        position, header = placed
        if header.base_offset < expected or header.last_offset_delta < 0 or header.leader_epoch < epoch:
            break
        if next_base is not None and header.last_offset >= next_base:
            break  # it was truncated before the next segment began
        if header.last_offset >= recovery_point:
            is_gap = header.base_offset > expected and not log.config.leaves_gaps
            if is_gap and not _confirms(header, following, next_base):
                break
            if not checksum_matches(segment.read(position, header.size), header):
                break
            checked += header.size
        segment.index_batch(position, header, interval)
        expected, end, epoch = header.last_offset + 1, position + header.size, header.leader_epoch
    is_below = max(expected, log.log_start_offset) < recovery_point
    if end < segment.size and is_below and not _is_torn_append(log, segment, end, recovery_point):
        why = f"damaged at offset {expected}, below the recovery point {recovery_point}"
        raise DiskFailure(segment.path, OSError(errno.EIO, why))
    segment.offsets.write_tail()
    segment.times.write_tail()
    return Checked(end, checked, epoch)


def _is_torn_append(log: Log, segment: Segment, position: int, recovery_point: int) -> bool:
    """Whether an append after a gap was cut short: the log may have ended within the gap, at the recovery point."""
    base_offset = segment.read(position, 8)
    return log.config.leaves_gaps and (len(base_offset) < 8 or int.from_bytes(base_offset) >= recovery_point)


def _confirms(header: BatchHeader, following: Placed | None, next_base: int | None) -> bool:
    """Whether the next batch, or else the next segment, continues from this one."""
    if following is None:
        return next_base == header.last_offset + 1
    return following.header.base_offset > header.last_offset
