"""The level of compression, which Kafka has as a config of each topic."""

import random

import pytest
from isthmus_wire.compression import Compression, compress, decompress

WORDS = [f"order-{number}" for number in range(300)]


@pytest.mark.parametrize(
    ("codec", "fast", "thorough"),
    [(Compression.GZIP, 1, 9), (Compression.LZ4, 9, 17), (Compression.ZSTD, 1, 19)],
)
def test_a_thorough_level_makes_a_smaller_body_with_the_same_records(
    codec: Compression, fast: int, thorough: int
) -> None:
    choose = random.Random(1)
    data = " ".join(choose.choice(WORDS) for _ in range(20_000)).encode()
    quick, small = (compress(codec, data, level) for level in (fast, thorough))
    assert len(small) < len(quick)
    assert bytes(decompress(codec, quick)) == bytes(decompress(codec, small)) == data


def test_kafkas_default_level_of_lz4_is_the_fast_compressor() -> None:
    data = b"fast or thorough " * 5_000
    assert compress(Compression.LZ4, data, 9) == compress(Compression.LZ4, data)
