"""Selection of whole batches from a fetch response, from the expected offset on."""

import pytest
from isthmus_linker.core.batches import Cut, cut
from isthmus_wire.extensions.mirrors import MirrorError
from isthmus_wire.records import NewRecord, build_batch


def batch(base: int, count: int = 2, epoch: int = 3) -> bytes:
    return build_batch([NewRecord(None, b"x" * 20)] * count, base_offset=base, leader_epoch=epoch)


SIZE = len(batch(0))


def selected(data: bytes, expected: int, last_epoch: int = 3, *, may_begin_within: bool = False) -> Cut:
    return cut(memoryview(data), expected, last_epoch, may_begin_within=may_begin_within)


def test_whole_batches_are_selected_and_an_incomplete_one_is_not() -> None:
    data = batch(10) + batch(12, epoch=4) + batch(14)[:-1]
    assert selected(data, 10) == Cut(0, 2 * SIZE, 10, 14, 4)


def test_gaps_that_compaction_left_are_kept() -> None:
    assert selected(batch(20) + batch(30), 10) == Cut(0, 2 * SIZE, 10, 32, 3)


def test_batches_before_the_expected_offset_are_skipped_whole() -> None:
    assert selected(batch(8) + batch(10), 10) == Cut(SIZE, 2 * SIZE, 10, 12, 3)


def test_a_batch_across_the_expected_offset_means_a_diverged_log() -> None:
    assert selected(batch(9), 10) == Cut(0, 0, 10, 10, 3, MirrorError.UNEXPECTED_TRUNCATION)


def test_a_copy_may_begin_within_a_batch() -> None:
    assert selected(batch(9) + batch(11), 10, -1, may_begin_within=True) == Cut(0, 2 * SIZE, 9, 13, 3)


def test_epochs_never_decrease() -> None:
    wrong = MirrorError.NON_MONOTONIC_LOG_APPEND_EPOCH
    assert selected(batch(10, epoch=5) + batch(12, epoch=4), 10) == Cut(0, SIZE, 10, 12, 5, wrong)
    assert selected(batch(10, epoch=2), 10) == Cut(0, 0, 10, 10, 3, wrong)


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_only_format_2_is_copied(magic: int) -> None:
    other = bytearray(batch(12))
    other[16] = magic
    unsupported = MirrorError.UNSUPPORTED_MESSAGE_FORMAT
    assert selected(batch(10) + bytes(other[:30]), 10) == Cut(0, SIZE, 10, 12, 3, unsupported)


def test_a_batch_with_a_lower_offset_or_a_false_length_is_corrupt() -> None:
    assert selected(batch(10) + batch(10), 10) == Cut(0, SIZE, 10, 12, 3, is_corrupt=True)
    short = bytearray(batch(12))
    short[8:12] = (10).to_bytes(4)
    assert selected(batch(10) + bytes(short), 10) == Cut(0, SIZE, 10, 12, 3, is_corrupt=True)


def test_an_empty_fetch_has_no_batches() -> None:
    assert selected(b"", 10) == Cut(0, 0, 10, 10, 3)
    assert selected(batch(10)[:20], 10) == Cut(0, 0, 10, 10, 3)
