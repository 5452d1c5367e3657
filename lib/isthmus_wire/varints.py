"""Zigzag varints, as inside records."""

from isthmus_wire.errors import CorruptBatch

_LONGEST_BITS = 63


def write_varint(out: bytearray, value: int) -> None:
    """Append a signed value."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The signed value at `position`, and the position after it."""
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
            shift += 7
            if shift > _LONGEST_BITS:
                raise CorruptBatch("a varint longer than ten bytes")
    except IndexError as error:
        raise CorruptBatch("the bytes end inside a varint") from error
