"""Parts of an object on its way to a store that takes it in several requests."""

from collections.abc import Iterable, Iterator
from typing import Final

PART_BYTES: Final = 8 * 1024 * 1024
"""The size of all parts but the last. S3 accepts 10,000 of at least 5 MiB, GCS multiples of 256 KiB."""


def parts_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join and split the pieces; at least one part, which may be empty."""
    part = bytearray()
    is_first = True
    for piece in pieces:
        part += piece
        while len(part) >= PART_BYTES:
            yield bytes(part[:PART_BYTES])
            del part[:PART_BYTES]
            is_first = False
    if part or is_first:
        yield bytes(part)
