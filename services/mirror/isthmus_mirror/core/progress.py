"""What a mirror keeps of its progress in the target: one record for each beginning of runs, written before the batch that begins them.

How far a copy is, the end of its own log says. Which offsets of the source its records had, the *jumps* say: a jump names the batch with
which it takes effect (its offset in the copy and its checksum), the runs in it, and the jump before it. So whoever reads the records later
knows which of them took effect, although they were written before, and perhaps by several mirrors at once: the newest jump whose batch is
in the copy did, the one it names did, and so on back to the first. The last run of a jump goes on until the next jump.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from isthmus_mirror.core.offset_map import Run

_VERSION: Final = 0
_NO_JUMP: Final = -1
_LENGTH: Final = struct.Struct(">h")
_KEY: Final = struct.Struct(">iqI")  # partition, base, checksum
_VALUE: Final = struct.Struct(">hqIi")  # version, base and checksum of the jump before, how many runs
_RUN: Final = struct.Struct(">qq")


class Mark(NamedTuple):
    """A batch of the copy: its offset there, and the checksum that its header has."""

    base: int
    crc: int


class Jump(NamedTuple):
    """Runs that begin with a batch, and the jump that was in effect before."""

    mark: Mark
    after: Mark | None
    runs: tuple[Run, ...]


class Place(NamedTuple):
    """A partition of the source."""

    topic: str
    partition: int


def encode_key(place: Place, mark: Mark) -> bytes:
    """Every jump has a key of its own, so that compaction keeps it until it is deleted."""
    name = place.topic.encode()
    return _LENGTH.pack(len(name)) + name + _KEY.pack(place.partition, *mark)


def encode_value(jump: Jump) -> bytes:
    """The runs and the jump before."""
    after = jump.after or Mark(_NO_JUMP, 0)
    return _VALUE.pack(_VERSION, *after, len(jump.runs)) + b"".join(_RUN.pack(*run) for run in jump.runs)


def decode_key(data: bytes | None) -> tuple[Place, Mark] | None:
    """None for what is no key of a jump."""
    try:
        (length,) = _LENGTH.unpack_from(data or b"")
        name = bytes(data or b"")[_LENGTH.size : _LENGTH.size + length].decode()
        partition, base, crc = _KEY.unpack_from(data or b"", _LENGTH.size + length)
    except (struct.error, UnicodeDecodeError):
        return None
    return Place(name, partition), Mark(base, crc)


def decode_value(mark: Mark, data: bytes | None) -> Jump | None:
    """None for a deleted jump, and for one of a version that is not known."""
    try:
        version, base, crc, count = _VALUE.unpack_from(data or b"")
        runs = tuple(Run(*_RUN.unpack_from(data or b"", _VALUE.size + i * _RUN.size)) for i in range(max(count, 0)))
    except struct.error:
        return None
    if version != _VERSION or not runs:
        return None
    return Jump(mark, None if base == _NO_JUMP else Mark(base, crc), runs)


class Ask(NamedTuple):
    """To know which jump is in effect, the checksum of the copy's batch at this offset is needed."""

    base: int


class Settled(NamedTuple):
    """The jumps in effect, in order, and those that never took effect and never will."""

    chain: tuple[Jump, ...]
    void: tuple[Jump, ...]


class Ambiguous(NamedTuple):
    """Retention took the batches that could tell which of these took effect."""

    jumps: tuple[Jump, ...]


def settle(
    jumps: Mapping[Mark, Jump], start: int, end: int, seen: Mapping[int, int | None]
) -> Ask | Settled | Ambiguous:
    """Which jumps are in effect in a copy with offsets from `start` to before `end`.

    `seen` has, by offset, the checksum of the copy's batch that begins there; None where none does. Jumps at `end` or behind it have not
    taken effect yet, and may still do.
    """
    before = sorted((jump for jump in jumps.values() if jump.mark.base < end), key=lambda jump: jump.mark, reverse=True)
    for jump in before:
        base = jump.mark.base
        if base < start:
            break
        if base not in seen:
            return Ask(base)
        if seen[base] == jump.mark.crc:
            return _settled(jumps, jump, before)
    forgotten = [jump for jump in before if jump.mark.base < start]
    named = {jump.after for jump in forgotten}
    leaves = tuple(jump for jump in forgotten if jump.mark not in named)
    if not leaves:
        return Settled((), tuple(before))
    return _settled(jumps, leaves[0], before) if len(leaves) == 1 else Ambiguous(leaves)


def _settled(jumps: Mapping[Mark, Jump], newest: Jump, before: Iterable[Jump]) -> Settled:
    chain = [newest]
    while (after := chain[-1].after) is not None and after in jumps:
        chain.append(jumps[after])
    chain.reverse()
    effective = {jump.mark for jump in chain}
    return Settled(tuple(chain), tuple(jump for jump in before if jump.mark not in effective))
