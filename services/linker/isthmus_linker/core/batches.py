"""Select the whole batches of a fetch that a copy is missing. Reads only headers: offsets, epoch, magic."""

import struct
from typing import Final, NamedTuple

from isthmus_wire.extensions.mirrors import MirrorError

_START: Final = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_LAST_DELTA: Final = struct.Struct(">i")
_LAST_DELTA_AT: Final = 23
_HEADER_SIZE: Final = 61
_LENGTH_END: Final = 12
_MAGIC: Final = 2


class Cut(NamedTuple):
    """Bytes `begin` to `end` are whole batches for offsets `first` to `next`; `error` is why nothing after them can be copied."""

    begin: int
    end: int
    first: int
    next: int
    last_epoch: int
    error: MirrorError | None = None
    is_corrupt: bool = False

    @property
    def size(self) -> int:
        """Bytes to append."""
        return self.end - self.begin


def cut(data: memoryview, expected: int, last_epoch: int, *, may_begin_within: bool) -> Cut:
    """Select batches from offset `expected` on, which follow one of epoch `last_epoch`; omits an incomplete one at the end.

    A fetch returns the batch that contains the offset, so the first may begin before it: that is valid only where a copy begins.
    """
    position, size = 0, len(data)
    begin, first, following, epoch = 0, expected, expected, last_epoch
    while position + _START.size <= size:
        base, length, batch_epoch, magic = _START.unpack_from(data, position)
        if magic != _MAGIC:
            return Cut(begin, position, first, following, epoch, MirrorError.UNSUPPORTED_MESSAGE_FORMAT)
        end = position + _LENGTH_END + length
        if length < _HEADER_SIZE - _LENGTH_END:
            return Cut(begin, position, first, following, epoch, is_corrupt=True)
        if end > size:
            break
        last = base + _LAST_DELTA.unpack_from(data, position + _LAST_DELTA_AT)[0]
        if last < expected and position == begin:
            begin = position = end
            continue
        if base < following:
            if not (may_begin_within and position == begin):
                # At the front it is another log than the copied one, later on it is a corrupt log.
                error = MirrorError.UNEXPECTED_TRUNCATION if position == begin else None
                return Cut(begin, position, first, following, epoch, error, is_corrupt=error is None)
            first = base
        if batch_epoch < epoch:
            return Cut(begin, position, first, following, epoch, MirrorError.NON_MONOTONIC_LOG_APPEND_EPOCH)
        following, epoch = last + 1, batch_epoch
        position = end
    return Cut(begin, position, first, following, epoch)
