"""The replacement of segments by a cleaned one, which a crash at any step neither loses nor repeats."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from isthmus_broker.edge.storage.files import failures_at, remove_if_present, sync_path
from isthmus_broker.edge.storage.filesystem import FileSystem
from isthmus_broker.edge.storage.log import Log
from isthmus_broker.edge.storage.segment import SUFFIXES, Segment, file_name

CLEANED_DIRECTORY: Final = "cleaned"
SWAP_PREFIX: Final = "swap-"


def replace_segments(log: Log, old: Sequence[Segment], cleaned: Segment) -> None:
    """Replace the original segments by a cleaned one, at once for every reader.

    The rename of its directory commits the replacement: if the node crashes before it, the next start removes the cleaned
    segment; if it crashes later, the next start completes the replacement. Each step is durable before
    the next one destroys what a repetition would need.
    """
    begin = log.segments.index(old[0])
    assert list(log.segments[begin : begin + len(old)]) == list(old)
    end_offset, files = old[-1].next_offset, log.pool.files
    cleaned.close()
    swap = log.directory / f"{SWAP_PREFIX}{end_offset}"
    with failures_at(log.directory):
        sync_path(files, cleaned.directory)
        files.rename(cleaned.directory, swap)
        sync_path(files, log.directory)
        marked = [path for segment in old for path in segment.mark_deleted()]
        sync_path(files, log.directory)
        _move_swapped(files, swap)
        fresh = Segment(log.pool, log.directory, cleaned.base_offset, created_ms=cleaned.created_ms)
        fresh.next_offset = end_offset
        fresh.first_timestamp = old[0].first_timestamp
        log.adopt([*log.segments[:begin], fresh, *log.segments[begin + len(old) :]])
        log.count_markers()
        log.note_change(log.directory)
        for path in marked:
            remove_if_present(files, path)


def finish_replacement(files: FileSystem, directory: Path, swap: Path) -> None:
    """Complete the replacement of segments by a cleaned one; the swap directory's name contains their end offset."""
    cleaned = segment_bases(files, swap)
    if not cleaned:  # the log file has been moved
        _move_swapped(files, swap)
        return
    end_offset = int(swap.name.removeprefix(SWAP_PREFIX))
    for base in segment_bases(files, directory):
        if cleaned[0] <= base < end_offset:
            for suffix in SUFFIXES:
                remove_if_present(files, directory / file_name(base, suffix))
    _move_swapped(files, swap)


def segment_bases(files: FileSystem, directory: Path) -> list[int]:
    """Base offsets of the segments, ascending."""
    return sorted(int(path.stem) for path in files.list(directory) if path.suffix == SUFFIXES[0])


def _move_swapped(files: FileSystem, swap: Path) -> None:
    """Move a cleaned segment's files into the log directory, the log file last: until then the move is incomplete."""
    for path in sorted(files.list(swap), key=lambda path: path.suffix == SUFFIXES[0]):
        files.rename(path, swap.parent / path.name)
    files.remove_directory(swap)
