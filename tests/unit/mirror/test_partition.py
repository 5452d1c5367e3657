"""The state machine of a copy, and the errors that fail it."""

import pytest
from isthmus_mirror.core.offset_map import Run
from isthmus_mirror.core.outbox import Stretch
from isthmus_mirror.core.partition import FetchResult, SourceRange, Stage
from isthmus_mirror.core.producer_ids import mirror_producer_id
from isthmus_mirror.core.progress import (
    Ambiguous,
    Behind,
    Jump,
    Jumps,
    Kind,
    Mark,
    NeedsChecksum,
    Settled,
    settle,
    still_needed,
)
from isthmus_mirror.core.sequenced import Placed, SequencedCopy, Tail
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NewRecord, build_batch

OURS = mirror_producer_id("west-id", "orders", None)
BACK = mirror_producer_id("east-id", "orders", None)
FIRST = Jump(Mark(0, 11), (Run(100, 0),))
NOW = 1_000


def placed(*, end: int = 20, tail: Tail | None = None) -> SequencedCopy:
    copy = SequencedCopy(producer_id=OURS, target_producer_id=BACK)
    at_the_same_place(copy, end, tail)
    return copy


def at_the_same_place(copy: SequencedCopy, end: int = 20, tail: Tail | None = None) -> None:
    copy.placed(Placed(0, end, (FIRST,) if end else (), tail or (Tail(OURS, end - 1, 99) if end else None)))


def batch(base: int, producer_id: int = -1, values: int = 1) -> memoryview:
    records = [NewRecord(None, b"v%d" % number, 1) for number in range(values)]
    return memoryview(build_batch(records, base_offset=base, producer_id=producer_id))


def send(copy: SequencedCopy, *, chained: bool = False) -> Stretch:
    sent = copy.next_append(MonotonicMs(NOW), chained=chained)
    assert sent is not None
    return sent


def fetched(copy: SequencedCopy, *bases: int) -> None:
    data = b"".join(bytes(batch(base)) for base in bases)
    copy.fetched(copy.map.next_upstream, FetchResult(memoryview(data), bases[-1] + 1, NOW), MonotonicMs(NOW))


def test_a_copy_continues_from_its_log_and_jumps() -> None:
    copy = placed()
    assert copy.fetch_at(MonotonicMs(NOW)) == (120, -1)
    fetched(copy, 120, 121)
    assert copy.jumps_to_record() == []
    sent = send(copy)
    assert (sent.base, len(sent.batches), copy.next_append(MonotonicMs(NOW), chained=False)) == (20, 1, None)
    copy.appended(sent, 20, -1, MonotonicMs(NOW))
    copy.appended(send(copy), 21, -1, MonotonicMs(NOW))
    assert (copy.map.end, copy.has_all, copy.map.to_downstream(121)) == (22, True, 21)


def test_a_jump_is_proposed_before_its_batch_and_certain_after_it() -> None:
    copy = placed()
    fetched(copy, 125)
    assert copy.next_append(MonotonicMs(NOW), chained=False) is None
    (jump,) = copy.jumps_to_record()
    assert (jump.mark.base, jump.runs, copy.jumps_to_confirm()) == (20, (Run(125, 20),), [])
    copy.recorded([jump])
    sent = send(copy)
    copy.appended(sent, 20, 999, MonotonicMs(NOW))
    assert copy.stage is Stage.CHECK
    copy.checked(sent, sent.batches[0].crc, MonotonicMs(NOW))
    assert (copy.map.to_downstream(121), copy.map.to_upstream(20)) == (20, 125)
    assert copy.jumps_to_confirm() == [jump]
    copy.confirmed([jump])
    assert copy.jumps_to_confirm() == []


def test_chained_batches_are_sent_together_up_to_an_unrecorded_jump() -> None:
    copy = placed()
    fetched(copy, 120, 121, 125)
    sent = send(copy, chained=True)
    assert (sent.base, sent.after_crc, len(sent.batches)) == (20, 99, 2)
    assert copy.next_append(MonotonicMs(NOW), chained=True) is None
    copy.recorded(copy.jumps_to_record())
    more = send(copy, chained=True)
    assert (more.base, more.after_crc) == (22, sent.batches[-1].crc)
    assert copy.next_append(MonotonicMs(NOW), chained=False) is None


def test_a_stretch_lands_only_after_those_before_it() -> None:
    copy = placed()
    fetched(copy, 120)
    first = send(copy, chained=True)
    fetched_at = copy.fetch_at(MonotonicMs(NOW))
    assert fetched_at == (121, -1)
    copy.fetched(121, FetchResult(batch(121), 122, NOW), MonotonicMs(NOW))
    second = send(copy, chained=True)
    copy.followed(second, MonotonicMs(NOW))
    assert copy.map.end == 20
    copy.followed(first, MonotonicMs(NOW))
    assert copy.map.end == 22


def test_an_overdue_append_is_given_up_after_a_leader_change() -> None:
    copy = placed()
    fetched(copy, 120)
    assert not copy.is_overdue(MonotonicMs(NOW + 10_000))
    send(copy, chained=True)
    assert (copy.is_overdue(MonotonicMs(NOW + 1_000)), copy.is_overdue(MonotonicMs(NOW + 10_000))) == (False, True)
    copy.leader_moved(MonotonicMs(NOW))
    assert copy.stage is Stage.PLACE


def test_one_refused_stretch_resets_all() -> None:
    copy = placed()
    fetched(copy, 120)
    first = send(copy, chained=True)
    copy.fetched(121, FetchResult(batch(121), 122, NOW), MonotonicMs(NOW))
    second = send(copy, chained=True)
    copy.append_refused(first, MonotonicMs(NOW))
    copy.followed(second, MonotonicMs(NOW))
    assert (copy.stage, copy.map.end, copy.buffered_bytes) == (Stage.PLACE, 20, 0)


@pytest.mark.parametrize("tail", [Tail(OURS + 1, 19, 99), Tail(OURS, 18, 99)])
def test_a_copy_with_another_producer_fails(tail: Tail) -> None:
    assert "the copy's last batch is not this mirror's" in placed(tail=tail).failure


def test_an_append_at_another_offset_fails_the_copy() -> None:
    copy = placed()
    fetched(copy, 120)
    copy.appended(send(copy), 21, -1, MonotonicMs(NOW))
    assert copy.failure == "a batch for offset 20 of the copy was appended at 21: another producer writes to it"


def test_batches_from_the_target_are_not_copied_back() -> None:
    copy = placed(end=0)
    copy.source_has(SourceRange(0, 0, 1), MonotonicMs(NOW))
    copy.fetched(0, FetchResult(batch(0, BACK), 1, NOW), MonotonicMs(NOW))
    assert copy.failure == "the source's topic is a copy of the target's; it is not copied back"


def test_a_source_that_lost_copied_records_fails_the_copy() -> None:
    for result in (FetchResult(memoryview(b""), 110, NOW, (), (3, 110)), None):
        copy = placed()
        if result is not None:
            copy.fetched(120, result, MonotonicMs(NOW))
        else:
            copy.fetch_refused(120, ErrorCode.offset_out_of_range, MonotonicMs(NOW))
            copy.source_has(SourceRange(0, 0, 110), MonotonicMs(NOW))
        assert "110" in copy.failure


def test_a_retention_gap_is_counted_and_skipped() -> None:
    copy = placed()
    copy.fetch_refused(120, ErrorCode.offset_out_of_range, MonotonicMs(NOW))
    copy.source_has(SourceRange(150, 150, 160), MonotonicMs(NOW))
    assert (copy.counters.gap_offsets, copy.fetch_at(MonotonicMs(NOW))) == (30, (150, -1))


def kept(proposed: tuple[Jump, ...] = (), certain: tuple[Jump, ...] = ()) -> Jumps:
    jumps = Jumps()
    for jump in proposed:
        jumps.keep(jump, Kind.PROPOSED)
    for jump in certain:
        jumps.keep(jump, Kind.CERTAIN)
    return jumps


SECOND = Jump(Mark(10, 22), (Run(130, 10),))
VOID = Jump(Mark(10, 33), (Run(131, 10),))
LATER = Jump(Mark(20, 44), (Run(150, 20),))


def test_a_proposed_jump_is_true_if_its_batch_exists() -> None:
    jumps = kept((VOID, LATER, FIRST, SECOND))
    assert isinstance(settle(jumps, 0, 20, {}), NeedsChecksum)
    assert settle(jumps, 0, 20, {0: 11, 10: 22}) == Settled((FIRST, SECOND), (FIRST, SECOND), (VOID,))
    assert settle(jumps, 0, 20, {0: 11, 10: None}) == Settled((FIRST,), (FIRST,), (VOID, SECOND))


def test_a_certain_jump_stays_true_after_compaction() -> None:
    jumps = kept((FIRST, SECOND, VOID), (FIRST,))
    assert settle(jumps, 0, 20, {10: 22}) == Settled((FIRST, SECOND), (SECOND,), (VOID,))
    jumps.keep(FIRST, Kind.PROPOSED)
    assert FIRST.mark not in jumps.proposed, "who proposes it once more does not know"


def test_removed_batches_matter_only_without_a_later_jump() -> None:
    assert settle(kept((SECOND, VOID), (FIRST,)), 15, 20, {}) == Ambiguous((SECOND, VOID))
    assert settle(kept((VOID,), (FIRST, SECOND)), 10, 20, {}) == Settled((FIRST, SECOND), (), (VOID,))


def test_progress_beyond_the_end_is_detected() -> None:
    assert settle(kept((), (FIRST, LATER)), 0, 20, {}) == Behind(20)
    assert settle(kept((LATER,), (FIRST,)), 0, 20, {}) == Settled((FIRST,), (), ())


def test_jumps_of_records_removed_by_retention_are_not_needed() -> None:
    jumps = (FIRST, SECOND, LATER)
    assert [still_needed(jumps, start) for start in (0, 9, 10, 19, 25)] == [
        jumps, jumps, (SECOND, LATER), (SECOND, LATER), (LATER,),
    ]  # fmt: skip
    assert still_needed((), 5) == ()
