"""Parts of an object on its way to a store that takes it in several requests."""

from collections.abc import Iterable, Iterator
from typing import Final

PART_BYTES: Final = 8 * 1024 * 1024
"""The smallest size of all parts but the last. S3 accepts 10,000 of at least 5 MiB."""


def parts_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces to parts; at least one part, which may be empty."""
    waiting: list[bytes] = []
    size = count = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            yield b"".join(waiting)
            waiting.clear()
            size, count = 0, count + 1
    if size or not count:
        yield b"".join(waiting)
