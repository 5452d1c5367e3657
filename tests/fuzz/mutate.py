"""Ways to damage bytes, drawn from a seeded generator."""

import random
from typing import Final

_INTERESTING: Final = (
    b"\0", b"\xff", b"\x7f", b"\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\0\0\0\0\x7f\xff\xff\xff",
)  # fmt: skip
"""Extremes of lengths, counts, varints and offsets."""


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A copy with one to four errors."""
    out = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        _damage(out, draw)
    return bytes(out)


def _damage(out: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(out) + 1)
    kind = draw.randrange(6)
    if kind == 0:
        del out[at:]
    elif kind == 1 and at < len(out):
        out[at] ^= 1 << draw.randrange(8)
    elif kind == 2:
        extreme = draw.choice(_INTERESTING)
        out[at : at + len(extreme)] = extreme
    elif kind == 3:
        out[at:at] = draw.choice(_INTERESTING)
    elif kind == 4:
        del out[at : at + draw.randint(1, 8)]
    else:
        out[at:at] = out[at : at + draw.randint(1, 32)]
