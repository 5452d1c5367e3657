"""The five compression types of a record batch, with a bound on what decompressing may yield.

Snappy is Kafka's variant: a stream header of the Java library and length-prefixed blocks; a bare snappy block is read as well.
LZ4 is the frame format with independent blocks, the only kind Kafka's Java client reads.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam
import lz4.frame
import zstandard

from isthmus_wire.errors import UnknownCompression

DECOMPRESSED_MAX: Final = 256 * 1024 * 1024
"""What one batch may unfold to; beyond it the batch is refused as corrupt."""

Bytes = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The codec in the lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_SNAPPY_STREAM: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER: Final = _SNAPPY_STREAM + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK: Final = 32 * 1024
_LENGTH: Final = struct.Struct(">i")


class TooLarge(UnknownCompression):
    """A body that decompresses to more than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"a batch that decompresses to more than {limit} bytes")


def _gunzip(data: Bytes, limit: int) -> bytes:
    out = bytearray()
    rest: Bytes = data
    while len(rest):  # gzip allows several members after one another
        member = zlib.decompressobj(wbits=31)
        out += member.decompress(rest, limit - len(out) + 1)
        if len(out) > limit:
            raise TooLarge(limit)
        if not member.eof:
            raise UnknownCompression("a gzip body that ends early")
        rest = member.unused_data
    return bytes(out)


_LZ4_DEFAULT_LEVEL: Final = 9


def _gzip(data: Bytes, level: int | None) -> bytes:
    packer = zlib.compressobj(-1 if level is None else level, wbits=31)
    return packer.compress(data) + packer.flush()


def _snappy_size(block: Bytes) -> int:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
        shift += 7
    raise UnknownCompression("a snappy block without its length")


def _unsnap_block(block: Bytes, limit: int) -> bytes:
    if _snappy_size(block) > limit:
        raise TooLarge(limit)
    return bytes(cramjam.snappy.decompress_raw(bytes(block)))


def _unsnap(data: Bytes, limit: int) -> bytes:
    if bytes(data[: len(_SNAPPY_STREAM)]) != _SNAPPY_STREAM:
        return _unsnap_block(data, limit)
    out = bytearray()
    position = len(_SNAPPY_HEADER)
    while position < len(data):
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if size < 0 or position + size > len(data):
            raise UnknownCompression("a snappy block that ends early")
        out += _unsnap_block(data[position : position + size], limit - len(out))
        position += size
    return bytes(out)


def _snap(data: Bytes, _level: int | None) -> bytes:
    out = bytearray(_SNAPPY_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _SNAPPY_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(bytes(view[start : start + _SNAPPY_BLOCK])))
        out += _LENGTH.pack(len(block)) + block
    return bytes(out)


def _unlz4(data: Bytes, limit: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    out: bytes = frame.decompress(data, limit + 1)
    if len(out) > limit:
        raise TooLarge(limit)
    if not frame.eof:
        raise UnknownCompression("an lz4 body that ends early")
    return out


def _lz4(data: Bytes, level: int | None) -> bytes:
    # As in Kafka, the default level selects the fast compressor, every other level the thorough one.
    thorough = 0 if level in (None, _LZ4_DEFAULT_LEVEL) else level
    packed: bytes = lz4.frame.compress(bytes(data), compression_level=thorough, block_linked=False, store_size=False)
    return packed


def _unzstd(data: Bytes, limit: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(bytes(data), read_across_frames=True) as stream:
        out = stream.read(limit + 1)
    if len(out) > limit:
        raise TooLarge(limit)
    return out


def _zstd(data: Bytes, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(bytes(data))


_DECOMPRESS: Final[dict[int, Callable[[Bytes, int], bytes]]] = {
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnap,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
_COMPRESS: Final[dict[int, Callable[[Bytes, int | None], bytes]]] = {
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snap,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}


def decompress(codec: int, data: Bytes, limit: int = DECOMPRESSED_MAX) -> Bytes:
    """The records inside a batch; raises UnknownCompression for a body that the codec refuses or that unfolds beyond `limit`."""
    if codec == Compression.NONE:
        return data
    if codec not in _DECOMPRESS:
        raise UnknownCompression(f"compression type {codec}")
    try:
        return _DECOMPRESS[codec](data, limit)
    except (zlib.error, cramjam.DecompressionError, RuntimeError, EOFError, zstandard.ZstdError, struct.error) as error:
        raise UnknownCompression(f"a body that is not {Compression(codec).name.lower()}: {error}") from error


def compress(codec: int, data: Bytes, level: int | None = None) -> Bytes:
    """The body of a batch with this compression; without a level, with the codec's default."""
    return data if codec == Compression.NONE else _COMPRESS[codec](data, level)
