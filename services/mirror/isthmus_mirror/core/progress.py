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
_KEY: Final = struct.Struct(">iqIqI")  # partition, base and checksum, those of the jump before
_VALUE: Final = struct.Struct(">hi")  # version, how many runs
_RUN: Final = struct.Struct(">qq")


class Mark(NamedTuple):
    """A batch of the copy: its offset there, and the checksum that its header has."""

    base: int
    crc: int


class Jump(NamedTuple):
    """Runs that begin with a batch, and the mark of the jump that was in effect before."""

    mark: Mark
    after: Mark | None
    runs: tuple[Run, ...]


class Place(NamedTuple):
    """A partition of the source."""

    topic: str
    partition: int


def encode_key(place: Place, jump: Jump) -> bytes:
    """Every jump has a key of its own, so that compaction keeps it until it is deleted."""
    name = place.topic.encode()
    return _LENGTH.pack(len(name)) + name + _KEY.pack(place.partition, *jump.mark, *(jump.after or Mark(_NO_JUMP, 0)))


def encode_value(jump: Jump) -> bytes:
    """The runs."""
    return _VALUE.pack(_VERSION, len(jump.runs)) + b"".join(_RUN.pack(*run) for run in jump.runs)


def decode_key(data: bytes | None) -> tuple[Place, Jump] | None:
    """The jump without its runs; None for what is no key of one."""
    try:
        (length,) = _LENGTH.unpack_from(data or b"")
        name = bytes(data or b"")[_LENGTH.size : _LENGTH.size + length].decode()
        partition, base, crc, after_base, after_crc = _KEY.unpack_from(data or b"", _LENGTH.size + length)
    except (struct.error, UnicodeDecodeError):
        return None
    after = None if after_base == _NO_JUMP else Mark(after_base, after_crc)
    return Place(name, partition), Jump(Mark(base, crc), after, ())


def decode_runs(data: bytes | None) -> tuple[Run, ...]:
    """Of a jump; none for a deleted one, and for one of a version that is not known."""
    try:
        version, count = _VALUE.unpack_from(data or b"")
        runs = tuple(Run(*_RUN.unpack_from(data or b"", _VALUE.size + i * _RUN.size)) for i in range(max(count, 0)))
    except struct.error:
        return ()
    return runs if version == _VERSION else ()


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


def settle(jumps: Iterable[Jump], start: int, end: int, seen: Mapping[int, int | None]) -> Ask | Settled | Ambiguous:
    """Which jumps are in effect in a copy with offsets from `start` to before `end`.

    `seen` has, by offset, the checksum of the copy's batch that begins there; None where none does. Jumps at `end` or behind it have not
    taken effect yet, and may still do.
    """
    before = [jump for jump in jumps if jump.mark.base < end]
    by_mark: dict[Mark, list[Jump]] = {}
    for jump in before:
        by_mark.setdefault(jump.mark, []).append(jump)
    newest = _newest(by_mark, start, seen)
    if newest is None:
        return Settled((), tuple(before))
    if not isinstance(newest, Mark):
        return newest
    chain = _chain(newest, by_mark, start, seen)
    if isinstance(chain, Ask):
        return chain
    effective = set(chain)
    return Settled(tuple(chain), tuple(jump for jump in before if jump not in effective))


def still_needed(chain: tuple[Jump, ...], start: int) -> tuple[Jump, ...]:
    """Without the jumps whose records retention took from the copy, which begins at `start` now: all before the last one up to there."""
    first = max((index for index, jump in enumerate(chain) if jump.mark.base <= start), default=0)
    return chain[first:]


def _newest(
    by_mark: Mapping[Mark, list[Jump]], start: int, seen: Mapping[int, int | None]
) -> Mark | Ask | Ambiguous | None:
    """Of the marks whose batch is in the copy. What retention took cannot be looked at: there it must be the only one not followed."""
    for mark in sorted((mark for mark in by_mark if mark.base >= start), reverse=True):
        if mark.base not in seen:
            return Ask(mark.base)
        if seen[mark.base] == mark.crc:
            return mark
    forgotten = {mark: variants for mark, variants in by_mark.items() if mark.base < start}
    followed = {jump.after for variants in forgotten.values() for jump in variants}
    leaves = [mark for mark in forgotten if mark not in followed]
    if len(leaves) > 1:
        return Ambiguous(tuple(jump for mark in leaves for jump in forgotten[mark]))
    return leaves[0] if leaves else None


def _chain(
    newest: Mark, by_mark: Mapping[Mark, list[Jump]], start: int, seen: Mapping[int, int | None]
) -> list[Jump] | Ask:
    """Back from the newest, as far as the jumps before are still kept; in order."""
    chain: list[Jump] = []
    mark: Mark | None = newest
    while mark is not None and mark in by_mark:
        chosen = _variant(by_mark[mark], by_mark, start, seen)
        if isinstance(chosen, Ask):
            return chosen
        chain.append(chosen)
        mark = chosen.after
    chain.reverse()
    return chain


def _variant(
    variants: list[Jump], by_mark: Mapping[Mark, list[Jump]], start: int, seen: Mapping[int, int | None]
) -> Jump | Ask:
    """Two mirrors may name the same batch after different jumps: right is who names the latest one that took effect."""
    if len(variants) == 1:
        return variants[0]
    ordered = sorted(variants, key=lambda jump: jump.after or Mark(_NO_JUMP, 0), reverse=True)
    for jump in ordered:
        if jump.after is None or jump.after not in by_mark:
            continue
        if jump.after.base >= start and jump.after.base not in seen:
            return Ask(jump.after.base)
        if jump.after.base < start or seen[jump.after.base] == jump.after.crc:
            return jump
    return next((jump for jump in ordered if jump.after is None or jump.after not in by_mark), ordered[-1])
