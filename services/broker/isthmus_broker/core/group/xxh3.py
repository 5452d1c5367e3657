"""XXH3, 64 bits, seed 0: the hash that Kafka keeps of a group's subscribed topics.

Written out because the hash only runs when metadata changes and a core takes no native dependency for that. Everything is modulo 2**64.
"""

import struct
from typing import Final

_MASK: Final = 2**64 - 1
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_MIDSIZE_MAX: Final = 240
_LANES: Final = struct.Struct("<8Q")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & _MASK
    return value ^ value >> 32


def _avalanche_xxh64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ value >> 32


def xxh3_64(data: bytes) -> int:
    """The hash as a signed 64-bit number."""
    size = len(data)
    if size <= 16:
        value = _up_to_16(data)
    elif size <= 128:
        value = _up_to_128(data)
    elif size <= _MIDSIZE_MAX:
        value = _up_to_240(data)
    else:
        value = _long(data)
    return value - 2**64 if value >= 2**63 else value


def _up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        flip_low = _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        flip_high = _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        low, high = _u64(data, 0) ^ flip_low, _u64(data, size - 8) ^ flip_high
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        flip = _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ flip
        value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
        value = value * 0x9FB21C651E98DF25 & _MASK
        value ^= (value >> 35) + size
        value = value * 0x9FB21C651E98DF25 & _MASK
        return value ^ value >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        return _avalanche_xxh64(combined ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4)))
    return _avalanche_xxh64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _up_to_128(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    for pair in range((size - 1) // 32 + 1):
        total += _mix16(data, 16 * pair, 32 * pair) + _mix16(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total & _MASK)


def _up_to_240(data: bytes) -> int:
    size = len(data)
    total = size * _PRIME64_1
    for chunk in range(8):
        total += _mix16(data, 16 * chunk, 16 * chunk)
    total = _avalanche(total & _MASK)
    for chunk in range(8, size // 16):
        total += _mix16(data, 16 * chunk, 16 * (chunk - 8) + 3)
    total += _mix16(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _long(data: bytes) -> int:
    size = len(data)
    lanes = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ]  # fmt: skip
    stripes = (size - 1) // _STRIPE
    for stripe in range(stripes):
        within = stripe % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, stripe * _STRIPE, within * 8)
        if within == _STRIPES_PER_BLOCK - 1:
            _scramble(lanes)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64_1
    for pair in range(0, 8, 2):
        at = 11 + 8 * pair
        total += _fold(lanes[pair] ^ _u64(_SECRET, at), lanes[pair + 1] ^ _u64(_SECRET, at + 8))
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    values = _LANES.unpack_from(data, at)
    keys = _LANES.unpack_from(_SECRET, secret_at)
    for lane in range(8):
        keyed = values[lane] ^ keys[lane]
        lanes[lane ^ 1] = (lanes[lane ^ 1] + values[lane]) & _MASK
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK


def _scramble(lanes: list[int]) -> None:
    keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for lane in range(8):
        value = lanes[lane]
        lanes[lane] = (value ^ value >> 47 ^ keys[lane]) * _PRIME32_1 & _MASK
