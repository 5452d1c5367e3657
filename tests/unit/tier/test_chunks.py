"""Chunks and the manifest: what comes back is what was written, or an error."""

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_tier.core.chunks import Chunk, ChunkTable, Damaged, Packing
from isthmus_tier.core.manifest import Manifest, UnknownManifest, WrappedKey, decode_manifest, encode_manifest
from isthmus_tier.core.segments import State

from tests.unit.tier.segments import segment_of

PLAIN: Final = Packing()
SMALL: Final = Packing(compresses=True)
MANIFEST: Final = Manifest(
    cluster_id="d2VzdC1vZi1tYW55LXdlcw",
    segment=replace(segment_of(1, 100, 199, (0, 100), (2, 150)), state=State.COPY_FINISHED),
    log=ChunkTable([Chunk(100, 40, 1), Chunk(100, 90, 2), Chunk(7, 7, 3)]),
    indexes={"index": Chunk(8, 8, 4), "timeindex": Chunk(12, 12, 5)},
    compressed=True,
    key=WrappedKey("blue", b"\0\1\2"),
)


@given(st.binary(max_size=300), st.booleans())
def test_what_was_packed_is_unpacked(data: bytes, compresses: bool) -> None:
    packing = Packing(compresses)
    chunk, stored = packing.pack(3, data)
    assert (chunk.size, chunk.stored) == (len(data), len(stored))
    assert len(stored) <= len(data)
    assert packing.unpack(3, chunk, stored) == data


def test_what_is_smaller_is_compressed() -> None:
    chunk, stored = SMALL.pack(0, bytes(10_000))
    assert len(stored) < 100
    assert PLAIN.unpack(0, chunk, stored) == bytes(10_000), "its sizes differ, so it is compressed"


@pytest.mark.parametrize("damage", ["flip", "short", "long", "size"])
def test_damage_is_noticed(damage: str) -> None:
    chunk, stored = SMALL.pack(0, b"abc" * 100)
    if damage == "flip":
        stored = bytes([stored[0] ^ 1]) + stored[1:]
    elif damage == "short":
        stored = stored[:-1]
    elif damage == "long":
        stored += b"x"
    else:
        chunk = chunk._replace(size=200)
    with pytest.raises(Damaged, match="chunk 0"):
        SMALL.unpack(0, chunk, stored)


def test_a_table_says_where_bytes_of_the_segment_lie() -> None:
    table = MANIFEST.log
    assert (table.size, table.stored) == (207, 137)
    span = table.span(1, 2)
    assert (span.position, span.stored) == (40, 97)
    parts = list(table.split(span, bytes(90) + b"1234567"))
    assert [(number, len(data)) for number, _, data in parts] == [(1, 90), (2, 7)]
    assert parts[1][2] == b"1234567"


def test_a_manifest_is_read_as_it_was_written() -> None:
    read = decode_manifest(encode_manifest(MANIFEST))
    assert replace(read, log=MANIFEST.log) == MANIFEST
    assert read.log.chunks == MANIFEST.log.chunks
    assert read.stored == 157


def test_a_damaged_manifest_is_noticed() -> None:
    data = encode_manifest(MANIFEST)
    for damaged in (data[:-1], data.replace(b"199", b"198"), b"", b"[]", b'{"content":{"version":1}}'):
        with pytest.raises(Damaged):
            decode_manifest(damaged)


def test_a_manifest_of_a_later_release_is_not_called_damaged() -> None:
    with pytest.raises(UnknownManifest, match="version 2"):
        decode_manifest(encode_manifest(MANIFEST).replace(b'"version":1', b'"version":2'))
