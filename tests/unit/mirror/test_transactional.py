"""Copies in transactions: what is appended when, what a commit and an abort leave, and the records of progress."""

from hypothesis import given
from hypothesis import strategies as st
from isthmus_mirror.core.limits import BUFFERED_BYTES_MAX
from isthmus_mirror.core.offset_map import OffsetMap, Run
from isthmus_mirror.core.origins import Origins
from isthmus_mirror.core.partition import FetchResult, SourceRange, Stage
from isthmus_mirror.core.progress import Copy, Kind, Place, decode_key
from isthmus_mirror.core.transactional import Outgoing, Progress, TransactionalCopy
from isthmus_mirror.core.written import Written, decode_written, encode_written, merged
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch, build_control_batch

NOW = MonotonicMs(1_000)
COMMIT = 1


def data(base: int, producer: int | None = None, size: int = 1) -> bytes:
    fields = {} if producer is None else {"attributes": TRANSACTIONAL_BIT, "producer_id": producer, "producer_epoch": 0}
    return build_batch([NewRecord(None, b"x" * size, 1)], base_offset=base, leader_epoch=0, **fields)


def marker(base: int, producer: int) -> bytes:
    return build_control_batch(COMMIT, bytes(6), timestamp=1, base_offset=base, producer_id=producer, producer_epoch=0)


def placed() -> TransactionalCopy:
    copy = TransactionalCopy(source="west", target="east", read_committed=True)
    copy.placed(Progress((), -1))
    assert copy.stage is Stage.LOOK_UP_SOURCE
    copy.source_has(SourceRange(0, 0, 0), NOW)
    return copy


def fetch(copy: TransactionalCopy, *batches: bytes) -> None:
    at = copy.fetch_at(NOW)
    assert at is not None
    copy.fetched(at[0], FetchResult(memoryview(b"".join(batches)), 100, 1), NOW)


def append(copy: TransactionalCopy, base: int) -> Outgoing:
    out = copy.next_append(NOW, is_ending=False)
    assert out is not None
    copy.appended(out, base)
    return out


def test_a_transaction_is_appended_when_it_is_complete() -> None:
    copy = placed()
    fetch(copy, data(0, 7), data(1), data(2, 7))
    assert not copy.has_appends(NOW)
    fetch(copy, marker(3, 7))
    assert [append(copy, 10 + number).first for number in range(3)] == [0, 1, 2]
    assert not copy.is_split


def test_a_transaction_that_does_not_fit_into_memory_is_appended_as_it_comes() -> None:
    copy = placed()
    fetch(copy, data(0, 7, BUFFERED_BYTES_MAX))
    append(copy, 0)
    assert copy.is_split
    fetch(copy, data(1, 7))
    assert copy.next_append(NOW, is_ending=True) is not None


def test_a_commit_moves_the_map_and_an_abort_goes_back() -> None:
    copy = placed()
    fetch(copy, data(0), data(1))
    append(copy, 5)
    append(copy, 6)
    assert (copy.reached, copy.to_record()) == (0, ([Written(0, 5, 2, "west")], 2))
    copy.committed()
    assert (copy.reached, copy.map.to_downstream(1), copy.last) == (2, 6, (1, 6, 1))
    written = copy.counters.bytes
    fetch(copy, data(2))
    append(copy, 9)
    copy.rolled_back()
    assert copy.counters.bytes == written > 0
    assert (copy.fetch_at(NOW), copy.reached, copy.map.end) == ((2, -1), 2, 7)


def test_a_copy_that_ends_within_a_transaction_no_longer_takes_part() -> None:
    """Its batches must not be committed without a record of them."""
    copy = placed()
    fetch(copy, data(0))
    append(copy, 5)
    assert copy.takes_part
    copy.stop()
    assert not copy.takes_part


def test_records_of_the_target_are_passed_over() -> None:
    copy = placed()
    copy.skips = frozenset({"east"})
    copy.origins = Origins()
    copy.origins.add("east", [Written(40, 0, 2, "east")])
    copy.origins.add("north", [Written(7, 2, 1, "north")])
    fetch(copy, data(0, 7), data(1, 7), marker(3, 7), data(2, 8), marker(4, 8))
    assert append(copy, 0).runs == (Written(2, 0, 1, "north"),)
    assert copy.map_back is not None
    assert [copy.map_back.first_upstream(offset) for offset in (0, 1, 2)] == [40, 41, 42]


def test_progress_continues_after_what_was_skipped() -> None:
    copy = placed()
    copy.place_again()
    copy.placed(Progress([Written(3, 8, 2, "west")], 9))
    assert (copy.fetch_at(NOW), copy.map.to_downstream(4)) == ((9, -1), 9)


def test_an_offset_before_the_map_is_the_start_of_the_copy() -> None:
    """Others, or MirrorMaker, may have written the record before: a group must not miss it."""
    copy = placed()
    copy.place_again()
    copy.placed(Progress([Written(30, 80, 2, "west")], 32))
    assert [copy.map.to_downstream(offset) for offset in (29, 30, 32)] == [0, 80, 82]


def test_records_of_progress_are_read_as_written() -> None:
    copy = Copy(Place("orders", 3), None)
    runs = [Written(0, 5, 2, "west"), Written(4, 7, 1, "west"), Written(9, 8, 1, "north")]
    encoded = list(encode_written(copy, runs))
    assert [run for _, value in encoded for run in decode_written(value)] == runs
    assert [decode_key(key) for key, _ in encoded] == [(copy, (5, 0), Kind.WRITTEN), (copy, (8, 0), Kind.WRITTEN)]
    assert (decode_written(None), decode_written(b"\x00\x09" + bytes(6))) == ((), ())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=50))
def test_a_map_with_other_writers_is_exact(steps: list[tuple[int, int, int]]) -> None:
    """Gaps on both sides between runs, against a list of pairs."""
    pairs: list[tuple[int, int]] = []
    known = OffsetMap()
    upstream = downstream = 0
    written: list[Written] = []
    for source_gap, copy_gap, count in steps:
        upstream, downstream = upstream + source_gap, downstream + copy_gap
        known.add(Run(upstream, downstream), count)
        written.append(Written(upstream, downstream, count, "west"))
        pairs += [(upstream + number, downstream + number) for number in range(count)]
        upstream, downstream = upstream + count, downstream + count
    assert len(merged(written)) == len(known)
    for offset in range(upstream + 2):
        assert known.to_downstream(offset) == next((down for up, down in pairs if up >= offset), downstream)
    for offset in range(downstream + 2):
        assert known.first_upstream(offset) == next((up for up, down in pairs if down >= offset), upstream)
