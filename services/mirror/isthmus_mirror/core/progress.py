"""What a mirror keeps of its progress in the target: where the source's offsets do not go on in step with the copy's.

How far a copy is, the end of its own log says. Which offsets of the source its records had, the *jumps* say: a jump tells the runs that
begin in one batch of the copy, and names the batch by its offset there and its checksum. It is *proposed* before the batch is sent. Several
mirrors may propose at once, and some batches never come; but whoever proposed it, a jump is true if the batch that it names is in the copy.
When that was seen it is *certain*, and nobody looks again: compaction of the copy may give the batch another checksum later, and retention
may take it away. The last run of a jump goes on until the next jump.
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
    """What is known of a jump."""

    PROPOSED = 0
    CERTAIN = 1


class Mark(NamedTuple):
    """A batch of the copy: its offset there, and the checksum that its header has."""

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
    """Of a partition of the source, in a topic of the target with this id: one that is deleted and made anew begins without progress."""

    source: Place
    topic_id: UUID | None


def encode_key(copy: Copy, mark: Mark, kind: Kind) -> bytes:
    """Every jump has keys of its own, so that compaction keeps it until it is deleted."""
    name, topic_id = copy.source.topic.encode(), copy.topic_id or _NO_ID
    return _LENGTH.pack(len(name)) + name + _KEY.pack(kind, copy.source.partition, *mark, topic_id.bytes)


def encode_value(jump: Jump) -> bytes:
    """The runs."""
    return _VALUE.pack(_VERSION, len(jump.runs)) + b"".join(_RUN.pack(*run) for run in jump.runs)


def decode_key(data: bytes | None) -> tuple[Copy, Mark, Kind] | None:
    """None for what is no key of a jump."""
    try:
        (length,) = _LENGTH.unpack_from(data or b"")
        name = bytes(data or b"")[_LENGTH.size : _LENGTH.size + length].decode()
        kind, partition, base, crc, topic_id = _KEY.unpack_from(data or b"", _LENGTH.size + length)
        known = UUID(bytes=topic_id)
        return Copy(Place(name, partition), None if known == _NO_ID else known), Mark(base, crc), Kind(kind)
    except (struct.error, ValueError):
        return None


def decode_runs(data: bytes | None) -> tuple[Run, ...]:
    """Of a jump; none for a deleted one, and for one of a version that is not known."""
    try:
        version, count = _VALUE.unpack_from(data or b"")
        runs = tuple(Run(*_RUN.unpack_from(data or b"", _VALUE.size + i * _RUN.size)) for i in range(max(count, 0)))
    except struct.error:
        return ()
    return runs if version == _VERSION else ()


class Jumps:
    """Those of one partition that are kept."""

    def __init__(self) -> None:
        self.proposed: dict[Mark, Jump] = {}
        """Not certain yet."""
        self.certain: dict[Mark, Jump] = {}

    def keep(self, jump: Jump, kind: Kind) -> None:
        """One that was written."""
        if kind is Kind.CERTAIN:
            self.certain[jump.mark] = jump
            self.proposed.pop(jump.mark, None)
        elif jump.mark not in self.certain:
            self.proposed[jump.mark] = jump

    def forget(self, mark: Mark, kind: Kind) -> None:
        """One that was deleted."""
        (self.certain if kind is Kind.CERTAIN else self.proposed).pop(mark, None)


class Ask(NamedTuple):
    """To know which jumps are true, the checksum of the copy's batch at this offset is needed."""

    base: int


class Settled(NamedTuple):
    """The jumps that are true, in order; which of them were only proposed; and those proposed that are not true and never will be."""

    jumps: tuple[Jump, ...]
    proven: tuple[Jump, ...]
    void: tuple[Jump, ...]


class Ambiguous(NamedTuple):
    """Retention took the batches that would tell whether these are true."""

    jumps: tuple[Jump, ...]


class Behind(NamedTuple):
    """The copy was asked for its end too early, or it has lost committed records: a jump at this offset is certain."""

    base: int


def settle(jumps: Jumps, start: int, end: int, seen: Mapping[int, int | None]) -> Ask | Settled | Ambiguous | Behind:
    """Which jumps are true of a copy with offsets from `start` to before `end`.

    `seen` has, by offset, the checksum of the copy's batch that begins there; None where none does. What is proposed for `end` or behind
    it may still come true.
    """
    known = {mark.base for mark in jumps.certain}
    newest = max(known, default=-1)
    if newest >= end:
        return Behind(newest)
    proposed = [jump for jump in jumps.proposed.values() if jump.mark.base < end]
    here = [jump for jump in proposed if jump.mark.base >= start and jump.mark.base not in known]
    for jump in here:
        if jump.mark.base not in seen:
            return Ask(jump.mark.base)
    proven = [jump for jump in here if seen[jump.mark.base] == jump.mark.crc]
    true = sorted((*jumps.certain.values(), *proven), key=lambda jump: jump.mark.base)
    # Of what lies before the start only the last jump still matters.
    reached = max((jump.mark.base for jump in true if jump.mark.base <= start), default=-1)
    doubtful = [jump for jump in proposed if reached < jump.mark.base < start]
    if doubtful:
        return Ambiguous(tuple(doubtful))
    void = [jump for jump in proposed if jump not in proven]
    return Settled(tuple(true), tuple(proven), tuple(void))


def still_needed(jumps: tuple[Jump, ...], start: int) -> tuple[Jump, ...]:
    """Without the jumps whose records retention took from the copy, which begins at `start` now: all before the last one up to there."""
    first = max((index for index, jump in enumerate(jumps) if jump.mark.base <= start), default=0)
    return jumps[first:]
