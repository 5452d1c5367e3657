"""Opens logs: after a clean shutdown from their indexes alone, after a crash with a check of all batches above the recovery point.

The log is truncated at the first batch that is torn, has a wrong checksum or an offset that does not ascend: it was never acknowledged as
durable, and the batches after it cannot be trusted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.records import checksum_matches

from isthmus_broker.core.config.topic_config import TopicConfig
from isthmus_broker.core.log.epochs import EpochHistory
from isthmus_broker.edge.storage.checkpoints import (
    read_epochs,
    read_topic_id,
    write_epochs,
    write_topic_id,
)
from isthmus_broker.edge.storage.files import DiskFailure, FilePool, remove_if_present
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log import CLEANED_DIRECTORY, SWAP_PREFIX, Log, move_swapped
from isthmus_broker.edge.storage.segment import DELETED_SUFFIX, SUFFIXES, Segment, file_name


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
    on_sealed: Callable[[Log], None] | None = None,
) -> Log:
    """Create an empty log."""
    try:
        pool.files.make_directory(directory, exist_ok=False)
    except OSError as error:
        raise DiskFailure(directory, error) from error
    if topic_id is not None:
        write_topic_id(pool.files, directory, topic_id)
    log = Log(pool, directory, topic, partition, config, now_ms=now_ms, on_sealed=on_sealed)
    log.topic_id = topic_id
    log.pool.descriptor(str(log.add_segment(0, now_ms).path))
    return log


def open_log(
    pool: FilePool,
    directory: Path,
    topic: str,
    partition: int,
    config: TopicConfig,
    *,
    now_ms: MonotonicMs,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    on_sealed: Callable[[Log], None] | None = None,
) -> tuple[Log, Recovered]:
    """Open the log in `directory`; `clean` after a clean shutdown."""
    try:
        log = Log(pool, directory, topic, partition, config, now_ms=now_ms, on_sealed=on_sealed)
        recovered = _load(log, now_ms=now_ms, clean=clean, recovery_point=recovery_point, start=log_start_offset)
    except DiskFailure:
        raise
    except OSError as error:
        raise DiskFailure(directory, error) from error
    return log, recovered


def _load(log: Log, *, now_ms: MonotonicMs, clean: bool, recovery_point: int, start: int) -> Recovered:
    pool, directory = log.pool, log.directory
    log.topic_id = read_topic_id(pool.files, directory)
    remove_leftovers(pool.files, directory)
    segments = [Segment(pool, directory, base, created_ms=now_ms) for base in segment_bases(pool.files, directory)]
    recovered = Recovered(0, 0)
    if segments:
        log.adopt(segments)
        recovered = _settle(log, clean=clean, recovery_point=recovery_point)
    else:
        pool.descriptor(str(log.add_segment(start, now_ms).path))
    log.log_start_offset = max(start, log.segments[0].base_offset)
    log.recovery_point = log.end_offset if clean else min(recovery_point, log.end_offset)
    log.high_watermark = log.log_start_offset
    log.epochs = EpochHistory(read_epochs(pool.files, directory))
    if log.epochs.truncate_from_end(log.end_offset):
        write_epochs(pool.files, directory, log.epochs.entries)
    log.count_markers()
    log.rebuild_producers()
    return recovered


def segment_bases(files: FileSystem, directory: Path) -> list[int]:
    """Base offsets of the segments, ascending."""
    return sorted(int(path.stem) for path in files.list(directory) if path.suffix == SUFFIXES[0])


def remove_leftovers(files: FileSystem, directory: Path) -> None:
    """Finish deletions and replacements of the last run, and remove incomplete files."""
    for path in files.list(directory):
        if path.name == CLEANED_DIRECTORY:
            files.remove_directory(path)
        elif path.suffix in (DELETED_SUFFIX, ".tmp"):
            files.remove(path)
        elif path.name.startswith(SWAP_PREFIX):
            finish_replacement(files, directory, path)


def finish_replacement(files: FileSystem, directory: Path, swap: Path) -> None:
    """Complete the replacement of segments by a cleaned one; the swap directory's name contains their end offset."""
    cleaned = segment_bases(files, swap)
    if not cleaned:  # the log file is moved last, so everything was moved
        files.remove_directory(swap)
        return
    end_offset = int(swap.name.removeprefix(SWAP_PREFIX))
    for base in segment_bases(files, directory):
        if cleaned[0] <= base < end_offset:
            for suffix in SUFFIXES:
                remove_if_present(files, directory / file_name(base, suffix))
    move_swapped(files, swap)


def _settle(log: Log, *, clean: bool, recovery_point: int) -> Recovered:
    """Determine the end of each segment; check every batch above the recovery point of an unclean log."""
    segments = log.segments
    checked = truncated = 0
    for number, segment in enumerate(segments):
        is_last = number == len(segments) - 1
        next_base = None if is_last else segments[number + 1].base_offset
        if clean or (next_base is not None and next_base <= recovery_point):
            _trust(log, segment, next_base)
            continue
        valid_from, valid_size = check_segment(log, segment, recovery_point)
        checked += valid_size - valid_from
        torn = segment.size - valid_size
        # Without compaction there are no gaps between segments: a gap means that a file lost its end.
        hole = next_base is not None and next_base != segment.next_offset and not log.config.leaves_gaps
        if torn or hole:
            truncated += torn + sum(later.size for later in segments[number + 1 :])
            log.pool.truncate(str(segment.path), valid_size)
            segment.size = valid_size
            for later in segments[number + 1 :]:
                for path in later.mark_deleted():
                    log.pool.files.remove(path)
            log.adopt(segments[: number + 1])
            log.drop_producer_snapshots(above=segment.next_offset)
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


def check_segment(log: Log, segment: Segment, recovery_point: int) -> tuple[int, int]:
    """Rebuild the indexes above the recovery point; returns the position where the check began, and the end of the last valid batch."""
    interval = log.config.index_interval_bytes
    begin = segment.offsets.position_for(recovery_point) if recovery_point > segment.base_offset else 0
    expected = segment.base_offset
    if begin > 0:
        expected = next(segment.headers(begin)).header.base_offset
    segment.offsets.truncate(expected)
    segment.times.truncate(expected)
    segment.aborted.truncate(expected)
    end = begin
    segment.rescan(segment.size, interval)  # reset the state derived from the truncated indexes
    for position, header in segment.headers(begin):
        # The checksum does not cover the base offset, so compare it with the end of the previous batch.
        gap = header.base_offset - expected
        if gap < 0 or (gap > 0 and not log.config.leaves_gaps) or header.last_offset_delta < 0:
            break
        if not checksum_matches(segment.read(position, header.size), header):
            break
        segment.index_batch(position, header, interval)
        expected = header.last_offset + 1
        end = position + header.size
    segment.offsets.write_tail()
    segment.times.write_tail()
    segment.read_first_timestamp()
    return begin, end
