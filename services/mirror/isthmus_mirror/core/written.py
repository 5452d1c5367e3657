"""What a transaction of the mirror wrote into a copy that has other writers too, recorded in the same transaction.

The records of a partition's copy, by their offsets on both sides, are its progress, its offset map, and their provenance: a flow in the
other direction copies everything except what comes from its target (`core/origins.py`).
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from isthmus_mirror.core.limits import SEGMENTS_MAX
from isthmus_mirror.core.progress import Copy, Kind, Mark, encode_key

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hhi")  # version, length of the origin, how many runs
_RUN: Final = struct.Struct(">qqi")
_NO_CHECKSUM: Final = 0


class Written(NamedTuple):
    """Records in step on both sides: their first offset in the source and in the copy, and the cluster that they were produced to."""

    upstream: int
    downstream: int
    records: int
    origin: str

    @property
    def stop(self) -> int:
        """The copy's offset after them."""
        return self.downstream + self.records

    def continues(self, earlier: "Written") -> bool:
        """Whether they follow those directly, on both sides."""
        return (
            earlier.stop == self.downstream
            and earlier.upstream + earlier.records == self.upstream
            and earlier.origin == self.origin
        )


def merged(runs: Iterable[Written]) -> list[Written]:
    """The same records in as few runs as possible; the runs are in order."""
    out: list[Written] = []
    for run in runs:
        if out and run.continues(out[-1]):
            out[-1] = out[-1]._replace(records=out[-1].records + run.records)
        else:
            out.append(run)
    return out


def encode_written(copy: Copy, runs: Sequence[Written]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of progress records; keys are unique, so that compaction keeps a run until it is deleted."""
    for origin, group in groupby(runs, key=lambda run: run.origin):
        of_origin = list(group)
        for start in range(0, len(of_origin), SEGMENTS_MAX):
            part = of_origin[start : start + SEGMENTS_MAX]
            name = origin.encode()
            value = _HEAD.pack(_VERSION, len(name), len(part)) + name
            value += b"".join(_RUN.pack(run.upstream, run.downstream, run.records) for run in part)
            yield written_key(copy, part[0]), value


def written_key(copy: Copy, first: Written) -> bytes:
    """The key of the record that begins with this run."""
    return encode_key(copy, Mark(first.downstream, _NO_CHECKSUM), Kind.WRITTEN)


def decode_written(value: bytes | None) -> tuple[Written, ...]:
    """The runs of a progress record; empty for a deleted one, or an unknown version."""
    data = value or b""
    try:
        version, length, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            return ()
        origin, at = data[_HEAD.size : _HEAD.size + length].decode(), _HEAD.size + length
        places = [_RUN.unpack_from(data, at + index * _RUN.size) for index in range(max(count, 0))]
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(Written(upstream, downstream, records, origin) for upstream, downstream, records in places)
