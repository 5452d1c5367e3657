"""A merged batch has the unchanged records of all its parts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from isthmus_mirror.core.batch_merging import join
from isthmus_mirror.core.partition import FetchResult
from isthmus_mirror.core.sequenced import SequencedCopy
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import (
    HEADER_SIZE,
    NewRecord,
    batches,
    build_batch,
    checksum_matches,
    iterate_records,
)

from tests.unit.mirror.test_partition import NOW, at_the_same_place, batch, placed, send

_BYTES = st.none() | st.binary(max_size=200)
_RECORD = st.builds(
    NewRecord,
    _BYTES,
    _BYTES,
    st.integers(0, 2**45),
    st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=2).map(tuple),
)
_OURS: dict[str, Any] = {"producer_id": 1 << 62, "producer_epoch": 0}


@given(
    several=st.lists(st.lists(_RECORD, min_size=1, max_size=5), min_size=1, max_size=5),
    codec=st.sampled_from((0, 1, 3, 4)),
)
def test_records_are_the_same_in_one_batch(several: list[list[NewRecord]], codec: int) -> None:
    made, base = [], 7
    for records in several:
        made.append(memoryview(build_batch(records, base_sequence=base, compression=codec, **_OURS)))
        base += len(records)
    data, crc, newest = join(made)
    ((_, header),) = batches(data)
    assert checksum_matches(data, header, 0)
    assert (header.crc, header.max_timestamp) == (crc, newest)
    assert (header.base_sequence, header.last_sequence, header.record_count) == (7, base - 1, base - 7)
    assert (header.compression, header.producer_id, header.base_offset) == (codec, 1 << 62, 0)
    before = [record for one in made for record in iterate_records(one)]
    after = list(iterate_records(data))
    assert [record._replace(offset=0) for record in before] == [record._replace(offset=0) for record in after]
    assert [record.offset for record in after] == list(range(base - 7))
    assert newest == max(record.timestamp for record in after)


def test_unreadable_batches_are_not_merged() -> None:
    with pytest.raises(CorruptBatch):
        join([memoryview(bytes(batch(0))[: HEADER_SIZE + 1])])


def waiting(*batches_of: memoryview) -> SequencedCopy:
    copy = placed()
    data = b"".join(map(bytes, batches_of))
    copy.fetched(120, FetchResult(memoryview(data), 200, NOW), MonotonicMs(NOW))
    return copy


def test_small_waiting_batches_are_merged_for_ordinary_brokers() -> None:
    copy = waiting(*(batch(120 + 2 * number, values=2) for number in range(5)))
    sent = send(copy)
    assert [(out.base, out.count, out.first, out.next) for out in sent.batches] == [(20, 10, 120, 130)]
    copy.appended(sent, 20, -1, MonotonicMs(NOW))
    assert (copy.map.end, copy.map.to_downstream(129), copy.buffered_bytes) == (30, 29, 0)


def test_batches_with_gaps_are_not_merged() -> None:
    copy = waiting(*(batch(120 + number) for number in range(4)), batch(130))
    assert send(copy).batches[0].count == 4


def test_few_batches_and_other_codecs_are_not_merged() -> None:
    assert send(waiting(*(batch(120 + number) for number in range(3)))).batches[0].count == 1
    zipped = [memoryview(build_batch([NewRecord(None, b"v", 1)], base_offset=122 + n, compression=4)) for n in range(4)]
    assert send(waiting(batch(120), batch(121), *zipped)).batches[0].count == 1


def test_after_a_too_large_error_batches_are_not_merged() -> None:
    copy = waiting(*(batch(120 + number) for number in range(5)))
    copy.append_refused(send(copy), MonotonicMs(NOW), is_too_large=True)
    at_the_same_place(copy)
    later = NOW + 10_000
    copy.fetched(
        120, FetchResult(memoryview(b"".join(bytes(batch(120 + n)) for n in range(5))), 200, NOW), MonotonicMs(later)
    )
    sent = copy.next_append(MonotonicMs(later), chained=False)
    assert sent is not None
    assert sent.batches[0].count == 1
