"""A mirror's progress in the target: where the source's offsets do not advance in step with the copy's.

The end of a copy's log is its progress. The source offsets of its records are in the *jumps*: a jump has the runs that begin in one batch
of the copy, and identifies the batch by its offset and checksum. It is *proposed* before the batch is sent. Several mirrors may propose at
once, and some batches are never appended; a jump is true if its batch is in the copy, whichever mirror proposed it. Once that is verified,
it is *certain* and never checked again: compaction of the copy may change the batch's checksum later, and retention may remove it. The last
run of a jump continues until the next jump.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_mirror.core.offset_map import Run

_VERSION: Final = 1
_LENGTH: Final = struct.Struct(">h")
_KEY: Final = struct.Struct(">biqI16s")  # kind, partition, base and checksum, the copy's topic
_VALUE: Final = struct.Struct(">hi")  # version, how many runs
_RUN: Final = struct.Struct(">qq")
_NO_ID: Final = UUID(int=0)


class Kind(IntEnum):
    """What a progress record is: a jump and its status, or what a transaction wrote (`core/written.py`)."""

    PROPOSED = 0
    CERTAIN = 1
    WRITTEN = 2


class Mark(NamedTuple):
    """A batch of the copy: its offset and checksum."""

    base: int
    crc: int


class Jump(NamedTuple):
    """Runs that begin in a batch."""

    mark: Mark
    runs: tuple[Run, ...]


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Copy(NamedTuple):
    """The copy of a source partition in a target topic with this id: a recreated topic begins without progress."""

    source: Place
    topic_id: UUID | None


def encode_key(copy: Copy, mark: Mark, kind: Kind) -> bytes:
    """Encode a jump's key; keys are unique, so that compaction keeps a jump until it is deleted."""
    name, topic_id = copy.source.topic.encode(), copy.topic_id or _NO_ID
    return _LENGTH.pack(len(name)) + name + _KEY.pack(kind, copy.source.partition, *mark, topic_id.bytes)


def encode_value(jump: Jump) -> bytes:
    """Encode the runs."""
    return _VALUE.pack(_VERSION, len(jump.runs)) + b"".join(_RUN.pack(*run) for run in jump.runs)


def decode_key(data: bytes | None) -> tuple[Copy, Mark, Kind] | None:
    """Decode a key; None if it is malformed."""
    try:
        (length,) = _LENGTH.unpack_from(data or b"")
        name = bytes(data or b"")[_LENGTH.size : _LENGTH.size + length].decode()
        kind, partition, base, crc, topic_id = _KEY.unpack_from(data or b"", _LENGTH.size + length)
        uuid = UUID(bytes=topic_id)
        return Copy(Place(name, partition), None if uuid == _NO_ID else uuid), Mark(base, crc), Kind(kind)
    except (struct.error, ValueError):
        return None


def decode_runs(data: bytes | None) -> tuple[Run, ...]:
    """Decode a jump's runs; empty for a deleted jump or an unknown version."""
    try:
        version, count = _VALUE.unpack_from(data or b"")
        runs = tuple(Run(*_RUN.unpack_from(data or b"", _VALUE.size + i * _RUN.size)) for i in range(max(count, 0)))
    except struct.error:
        return ()
    return runs if version == _VERSION else ()


class Jumps:
    """The jumps of one partition."""

    def __init__(self) -> None:
        self.proposed: dict[Mark, Jump] = {}
        """Not certain yet."""
        self.certain: dict[Mark, Jump] = {}

    def keep(self, jump: Jump, kind: Kind) -> None:
        """Apply a written jump."""
        if kind is Kind.CERTAIN:
            self.certain[jump.mark] = jump
            self.proposed.pop(jump.mark, None)
        elif jump.mark not in self.certain:
            self.proposed[jump.mark] = jump

    def forget(self, mark: Mark, kind: Kind) -> None:
        """Apply a deletion."""
        (self.certain if kind is Kind.CERTAIN else self.proposed).pop(mark, None)


class NeedsChecksum(NamedTuple):
    """The checksum of the copy's batch at this offset is needed."""

    base: int


class Settled(NamedTuple):
    """The true jumps in order, those of them that were only proposed, and the proposed ones that are void."""

    jumps: tuple[Jump, ...]
    proven: tuple[Jump, ...]
    void: tuple[Jump, ...]


class Ambiguous(NamedTuple):
    """Retention removed the batches that would show whether these are true."""

    jumps: tuple[Jump, ...]


class Behind(NamedTuple):
    """The copy's end is before a certain jump: it was looked up too early, or the copy lost committed records."""

    base: int


def settle(
    jumps: Jumps, start: int, end: int, checksums: Mapping[int, int | None]
) -> NeedsChecksum | Settled | Ambiguous | Behind:
    """Decide which jumps are true of a copy with offsets from `start` to before `end`.

    `checksums` has, by offset, the checksum of the copy's batch that begins there; None if none does. Jumps proposed for `end` or after it
    may still become true.
    """
    certain = {mark.base for mark in jumps.certain}
    newest = max(certain, default=-1)
    if newest >= end:
        return Behind(newest)
    proposed = [jump for jump in jumps.proposed.values() if jump.mark.base < end]
    here = [jump for jump in proposed if jump.mark.base >= start and jump.mark.base not in certain]
    for jump in here:
        if jump.mark.base not in checksums:
            return NeedsChecksum(jump.mark.base)
    proven = [jump for jump in here if checksums[jump.mark.base] == jump.mark.crc]
    true = sorted((*jumps.certain.values(), *proven), key=lambda jump: jump.mark.base)
    # Of the jumps before the start only the last one matters.
    reached = max((jump.mark.base for jump in true if jump.mark.base <= start), default=-1)
    doubtful = [jump for jump in proposed if reached < jump.mark.base < start]
    if doubtful:
        return Ambiguous(tuple(doubtful))
    void = [jump for jump in proposed if jump not in proven]
    return Settled(tuple(true), tuple(proven), tuple(void))


def still_needed(jumps: tuple[Jump, ...], start: int) -> tuple[Jump, ...]:
    """The jumps without those whose records retention removed: all before the last one at or before `start`."""
    first = max((index for index, jump in enumerate(jumps) if jump.mark.base <= start), default=0)
    return jumps[first:]
