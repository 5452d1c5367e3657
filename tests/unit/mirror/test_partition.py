"""What ends a copy rather than being guessed."""

import pytest
from isthmus_mirror.core.identity import mirror_producer_id
from isthmus_mirror.core.offset_map import Run
from isthmus_mirror.core.partition import News, PartitionCopy, Placed, SourceRange, Stage, Tail
from isthmus_mirror.core.progress import Ambiguous, Ask, Jump, Mark, Settled, settle, still_needed
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch

OURS = mirror_producer_id("west-id", "orders", None)
BACK = mirror_producer_id("east-id", "orders", None)
FIRST = Jump(Mark(0, 11), None, (Run(100, 0),))
NOW = 1_000


def placed(*, end: int = 20, tail: Tail | None = None) -> PartitionCopy:
    copy = PartitionCopy(OURS, BACK)
    copy.placed(Placed(0, end, (FIRST,) if end else (), tail or (Tail(OURS, end - 1) if end else None)))
    return copy


def batch(base: int, producer_id: int = -1) -> memoryview:
    return memoryview(build_batch([NewRecord(None, b"v", 1)], base_offset=base, producer_id=producer_id))


def test_a_copy_goes_on_where_its_log_and_its_jumps_say() -> None:
    copy = placed()
    assert copy.fetch_at(NOW) == (120, -1)
    copy.fetched(120, News(batch(120), 121, NOW), NOW)
    assert copy.jumps_to_record() == []
    sent = copy.next_append(NOW)
    assert sent is not None
    assert (sent.base, copy.next_append(NOW)) == (20, None)
    copy.appended(sent, 20, -1, NOW)
    assert (copy.map.end, copy.has_all, copy.map.to_downstream(121)) == (21, True, 21)


def test_a_gap_is_recorded_before_its_batch_is_sent() -> None:
    copy = placed()
    copy.fetched(120, News(batch(125), 126, NOW), NOW)
    assert copy.next_append(NOW) is None
    (jump,) = copy.jumps_to_record()
    assert (jump.mark.base, jump.after, jump.runs) == (20, FIRST.mark, (Run(125, 20),))
    copy.recorded([jump])
    sent = copy.next_append(NOW)
    assert sent is not None
    copy.appended(sent, 20, 999, NOW)
    assert copy.stage is Stage.CHECK
    copy.checked(sent, sent.crc, NOW)
    assert (copy.map.to_downstream(121), copy.map.to_upstream(20)) == (20, 125)


@pytest.mark.parametrize("tail", [Tail(OURS + 1, 19), Tail(OURS, 18)])
def test_a_copy_that_somebody_else_writes_to_is_refused(tail: Tail) -> None:
    assert "the copy's last batch is not this mirror's" in placed(tail=tail).failure


def test_an_append_that_came_elsewhere_ends_the_copy() -> None:
    copy = placed()
    copy.fetched(120, News(batch(120), 121, NOW), NOW)
    sent = copy.next_append(NOW)
    assert sent is not None
    copy.appended(sent, 21, -1, NOW)
    assert copy.failure == "a batch for offset 20 of the copy came to 21: somebody else writes to it"


def test_batches_that_came_from_the_target_never_go_back() -> None:
    copy = placed(end=0)
    copy.source_has(SourceRange(0, 0, 1), NOW)
    copy.fetched(0, News(batch(0, BACK), 1, NOW), NOW)
    assert copy.failure == "the source's topic is itself a copy of the target's: it is not sent back"


def test_a_source_that_lost_what_was_copied_ends_the_copy() -> None:
    for news in (News(memoryview(b""), 110, NOW, (), (3, 110)), None):
        copy = placed()
        if news is not None:
            copy.fetched(120, news, NOW)
        else:
            copy.fetch_refused(120, ErrorCode.offset_out_of_range, NOW)
            copy.source_has(SourceRange(0, 0, 110), NOW)
        assert "110" in copy.failure


def test_a_gap_of_retention_is_counted_and_crossed() -> None:
    copy = placed()
    copy.fetch_refused(120, ErrorCode.offset_out_of_range, NOW)
    copy.source_has(SourceRange(150, 150, 160), NOW)
    assert (copy.counters.gap_offsets, copy.fetch_at(NOW)) == (30, (150, -1))


def test_the_newest_jump_whose_batch_is_there_took_effect_and_what_it_names_did() -> None:
    second = Jump(Mark(10, 22), FIRST.mark, (Run(130, 10),))
    void = Jump(Mark(10, 33), FIRST.mark, (Run(131, 10),))
    later = Jump(Mark(20, 44), second.mark, (Run(150, 20),))
    jumps = [void, later, FIRST, second]
    assert isinstance(settle(jumps, 0, 20, {}), Ask)
    assert settle(jumps, 0, 20, {10: 22}) == Settled((FIRST, second), (void,))
    assert settle(jumps, 0, 20, {10: None, 0: 11}) == Settled((FIRST,), (void, second))
    assert settle([FIRST, second], 15, 20, {}) == Settled((FIRST, second), ())
    assert isinstance(settle([FIRST, second, void], 15, 20, {}), Ambiguous)


def test_of_two_that_name_the_same_batch_the_one_after_a_jump_that_took_effect_is_right() -> None:
    lost = Jump(Mark(10, 33), FIRST.mark, (Run(131, 10),))
    wrong = Jump(Mark(15, 55), lost.mark, (Run(140, 15),))
    right = Jump(Mark(15, 55), FIRST.mark, (Run(140, 15),))
    seen = {15: 55, 10: None, 0: 11}
    assert settle([FIRST, lost, wrong, right], 0, 20, seen) == Settled((FIRST, right), (lost, wrong))


def test_jumps_whose_records_retention_took_are_not_needed() -> None:
    second = Jump(Mark(10, 22), FIRST.mark, (Run(130, 10),))
    third = Jump(Mark(20, 44), second.mark, (Run(150, 20),))
    chain = (FIRST, second, third)
    assert [still_needed(chain, start) for start in (0, 9, 10, 19, 25)] == [
        chain, chain, (second, third), (second, third), (third,),
    ]  # fmt: skip
    assert still_needed((), 5) == ()
