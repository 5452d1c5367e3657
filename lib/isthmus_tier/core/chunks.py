"""Chunks, the parts of an object. Each can be read, checked, decrypted and decompressed without the others.

A chunk is compressed, then encrypted. One that compression does not make smaller is stored uncompressed: then its two sizes are equal.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

from crc32c import crc32c
from isthmus_wire.compression import Bytes, Compression, compress, decompress
from isthmus_wire.errors import UnknownCompression

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""The size of the chunks of a segment before compression; the last one is smaller."""


class Chunk(NamedTuple):
    """One chunk of an object."""

    size: int
    stored: int
    """The size in the store."""
    checksum: int
    """CRC-32C of what is stored."""


class Damaged(Exception):
    """Bytes from the store that are not what was written."""


class WrongKey(Exception):
    """A chunk that was encrypted with another key, or damaged before it got its checksum."""


class Cipher(Protocol):
    """Encrypts the chunks of one segment, each under its own number."""

    def encrypt(self, number: int, data: bytes) -> bytes:
        """Encrypt and authenticate a chunk."""
        ...

    def decrypt(self, number: int, data: bytes) -> bytes:
        """The other way round; raises WrongKey."""
        ...


class Packing(NamedTuple):
    """How the chunks of a segment are stored."""

    compresses: bool = False
    cipher: Cipher | None = None

    def pack(self, number: int, plain: Bytes) -> tuple[Chunk, bytes]:
        """The chunk, and its bytes for the store."""
        stored = bytes(plain)
        if self.compresses:
            packed = bytes(compress(Compression.ZSTD, stored))
            stored = packed if len(packed) < len(stored) else stored
        if self.cipher is not None:
            stored = self.cipher.encrypt(number, stored)
        return Chunk(len(plain), len(stored), crc32c(stored)), stored

    def unpack(self, number: int, chunk: Chunk, stored: bytes) -> bytes:
        """The bytes that were packed; raises Damaged or WrongKey."""
        if len(stored) != chunk.stored:
            raise Damaged(f"chunk {number} has {len(stored)} bytes, not {chunk.stored}")
        if crc32c(stored) != chunk.checksum:
            raise Damaged(f"the checksum of chunk {number} is wrong")
        plain = stored if self.cipher is None else self.cipher.decrypt(number, stored)
        if len(plain) != chunk.size:
            try:
                plain = bytes(decompress(Compression.ZSTD, plain, chunk.size))
            except UnknownCompression as error:
                raise Damaged(f"chunk {number} cannot be decompressed: {error}") from error
        if len(plain) != chunk.size:
            raise Damaged(f"chunk {number} decompresses to {len(plain)} bytes, not {chunk.size}")
        return plain


class Span(NamedTuple):
    """Chunks that lie side by side in an object: `numbers` of them, from `position` on, `stored` bytes."""

    numbers: range
    position: int
    stored: int


class ChunkTable:
    """The chunks of a segment's batches, of one size but for the last."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.chunks = tuple(chunks)
        self._starts = [0, *accumulate(chunk.stored for chunk in self.chunks)]

    @property
    def size(self) -> int:
        """The bytes of the segment."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def stored(self) -> int:
        """The bytes of the object."""
        return self._starts[-1]

    def span(self, first: int, count: int) -> Span:
        """These chunks in the object."""
        position = self._starts[first]
        return Span(range(first, first + count), position, self._starts[first + count] - position)

    def split(self, span: Span, stored: bytes) -> Iterator[tuple[int, Chunk, bytes]]:
        """The number, the description and the bytes of each chunk."""
        for number in span.numbers:
            start, end = (self._starts[at] - span.position for at in (number, number + 1))
            yield number, self.chunks[number], stored[start:end]
