"""One partition's copy, by events."""

from isthmus_linker.core.partition import (
    Append,
    EndOfLog,
    Failure,
    FetchAt,
    FetchResult,
    PartitionCopy,
    SourceRange,
    Stage,
)
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorError
from isthmus_wire.records import NewRecord, build_batch

RETRY_TIMEOUT_MS = 1_000


def batch(base: int, count: int = 2, epoch: int = 3) -> bytes:
    return build_batch([NewRecord(None, b"x" * 20)] * count, base_offset=base, leader_epoch=epoch)


def result(
    records: bytes = b"", high_watermark: int = 20, epoch: int = 3, diverging: tuple[int, int] | None = None
) -> FetchResult:
    return FetchResult(memoryview(records), high_watermark, epoch, diverging)


def placed(end: int = 10, last_epoch: int = 3) -> PartitionCopy:
    """A copy that has looked up the destination's log end."""
    copy = PartitionCopy(RETRY_TIMEOUT_MS, backoff_max_ms=400)
    copy.destination_ends(EndOfLog(end, last_epoch), end, MonotonicMs(0))
    return copy


def fetch(copy: PartitionCopy, answer: FetchResult, now_ms: int = 0) -> None:
    at = copy.fetch_at(MonotonicMs(now_ms))
    assert at is not None
    copy.fetched(at, answer, MonotonicMs(now_ms))


def send(copy: PartitionCopy, now_ms: int = 0) -> Append:
    append = copy.next_append(MonotonicMs(now_ms))
    assert append is not None
    return append


def test_it_fetches_from_the_destinations_end_and_expects_that_offset() -> None:
    copy = PartitionCopy(RETRY_TIMEOUT_MS, 400)
    assert copy.needs_lookup(Stage.LOOK_UP_DESTINATION, MonotonicMs(0))
    assert copy.fetch_at(MonotonicMs(0)) is None
    copy.destination_ends(EndOfLog(10, 3), 10, MonotonicMs(0))
    assert copy.fetch_at(MonotonicMs(0)) == FetchAt(10, 3)
    fetch(copy, result(batch(10) + batch(12, epoch=4)))
    append = send(copy)
    assert append.chunk is not None
    assert bytes(append.chunk.records) == batch(10) + batch(12, epoch=4)
    assert append[1:] == (10, -1, 3, 20)
    assert copy.next_append(MonotonicMs(0)) is None
    copy.appended(append, EndOfLog(14, 4))
    assert (copy.end, copy.counters.offsets, append.chunk.released) == (14, 4, True)
    assert copy.fetch_at(MonotonicMs(0)) == FetchAt(14, 4)


def test_one_response_is_fetched_while_another_is_appended() -> None:
    copy = placed()
    fetch(copy, result(batch(10)))
    first = send(copy)
    fetch(copy, result(batch(12)))
    assert copy.fetch_at(MonotonicMs(0)) is None
    copy.appended(first, EndOfLog(12, 3))
    assert send(copy).expected_end == 12
    assert copy.fetch_at(MonotonicMs(0)) == FetchAt(14, 3)


def test_nothing_is_sent_before_the_last_append_is_committed() -> None:
    copy = placed()
    fetch(copy, result(batch(10)))
    copy.append_refused(send(copy), ErrorCode.request_timed_out, EndOfLog(12, 3), MonotonicMs(0))
    assert copy.needs_lookup(Stage.LOOK_UP_DESTINATION, MonotonicMs(50))
    copy.destination_ends(EndOfLog(12, 3), 10, MonotonicMs(50))
    assert (
        copy.needs_lookup(Stage.LOOK_UP_DESTINATION, MonotonicMs(50)),
        copy.fetch_at(MonotonicMs(50)),
        copy.next_append(MonotonicMs(50)),
    ) == (False, None, None)
    assert copy.end == 10, "not committed yet"
    assert copy.needs_lookup(Stage.LOOK_UP_DESTINATION, MonotonicMs(150))
    copy.destination_ends(EndOfLog(12, 3), 12, MonotonicMs(150))
    assert (copy.end, copy.fetch_at(MonotonicMs(150))) == (12, FetchAt(12, 3))


def test_an_append_to_a_former_leader_is_given_up() -> None:
    copy = placed()
    copy.leader_moved(MonotonicMs(0))
    assert copy.stage is Stage.COPY, "nothing is under way"
    fetch(copy, result(batch(10)))
    append = send(copy)
    assert (copy.is_overdue(MonotonicMs(3_000)), copy.is_overdue(MonotonicMs(3_001))) == (False, True)
    copy.leader_moved(MonotonicMs(9_000))
    assert (copy.stage, copy.is_overdue(MonotonicMs(9_000))) == (Stage.LOOK_UP_DESTINATION, False)
    copy.destination_ends(EndOfLog(10, 3), 10, MonotonicMs(9_100))
    copy.appended(append, EndOfLog(12, 3))
    assert copy.fetch_at(MonotonicMs(9_100)) == FetchAt(10, 3), "late responses are ignored"


def test_an_unexpected_log_end_of_the_destination_is_adopted() -> None:
    copy = placed()
    fetch(copy, result(batch(10)))
    append = send(copy)
    copy.append_refused(append, ErrorCode.offset_out_of_range, EndOfLog(16, 5), MonotonicMs(0))
    assert copy.fetch_at(MonotonicMs(0)) == FetchAt(16, 5)
    assert append.chunk is not None
    assert append.chunk.released


def test_a_response_to_an_outdated_fetch_is_ignored() -> None:
    copy = placed()
    fetch(copy, result(batch(10)))
    asked = copy.fetch_at(MonotonicMs(0))
    assert asked == FetchAt(12, 3)
    copy.append_refused(send(copy), ErrorCode.offset_out_of_range, EndOfLog(12, 2), MonotonicMs(0))
    copy.fetched(asked, result(batch(12)), MonotonicMs(0))
    copy.fetch_refused(asked, ErrorCode.offset_out_of_range, 3, MonotonicMs(0))
    assert (copy.next_append(MonotonicMs(0)), copy.fetch_at(MonotonicMs(0))) == (None, FetchAt(12, 2))


def test_a_lost_response_leads_to_a_lookup_after_a_growing_backoff() -> None:
    copy = placed()
    pauses = []
    now = 0
    for _ in range(6):
        fetch(copy, result(batch(10)), now)
        copy.append_lost(send(copy, now), MonotonicMs(now))
        began = now
        while not copy.needs_lookup(Stage.LOOK_UP_DESTINATION, MonotonicMs(now)):
            now += 1
        pauses.append(now - began)
        copy.destination_ends(EndOfLog(10, 3), 10, MonotonicMs(0))
    assert pauses == [50, 100, 200, 400, 400, 400]


def test_responses_to_abandoned_requests_are_ignored() -> None:
    copy = placed()
    fetch(copy, result(batch(10)))
    append = send(copy)
    copy.append_lost(append, MonotonicMs(0))
    copy.destination_ends(EndOfLog(10, 3), 10, MonotonicMs(0))
    copy.appended(append, EndOfLog(12, 3))
    assert copy.end == 10
    copy.fetched(FetchAt(4, 1), result(batch(4)), MonotonicMs(0))
    assert copy.fetch_at(MonotonicMs(100)) == FetchAt(10, 3)


def test_a_fenced_epoch_sets_the_needed_epoch() -> None:
    copy = placed()
    fetch(copy, result(batch(10, epoch=7)))
    copy.append_refused(send(copy), ErrorCode.fenced_leader_epoch, EndOfLog(10, 3), MonotonicMs(0))
    assert (copy.needs_epoch_above, copy.stage) == (7, Stage.LOOK_UP_DESTINATION)


def test_a_new_copy_begins_at_the_given_offset_even_without_records() -> None:
    copy = placed(end=0, last_epoch=-1)
    assert copy.needs_lookup(Stage.LOOK_UP_SOURCE, MonotonicMs(0))
    copy.source_has(SourceRange(5, 8, 3), MonotonicMs(0))
    fetch(copy, result(high_watermark=8))
    assert not copy.has_all
    telling = send(copy)
    assert telling == Append(None, 0, 8, 3, 8)
    copy.appended(telling, EndOfLog(8, -1))
    assert (copy.end, copy.has_all) == (8, True)
    fetch(copy, result(batch(8)))
    assert send(copy, 2_000)[1:] == (8, -1, 3, 20)


def test_a_retention_gap_is_skipped_and_counted() -> None:
    copy = placed()
    at = copy.fetch_at(MonotonicMs(0))
    assert at is not None
    copy.fetch_refused(at, ErrorCode.offset_out_of_range, 4, MonotonicMs(0))
    copy.source_has(SourceRange(50, 50, 4), MonotonicMs(0))
    assert copy.counters.gap_offsets == 40
    assert copy.fetch_at(MonotonicMs(0)) == FetchAt(50, -1), "the source has forgotten the epochs before the gap"
    fetch(copy, result(batch(50, epoch=4)))
    append = send(copy)
    assert append.expected_end == 10
    copy.appended(append, EndOfLog(52, 4))
    assert copy.fetch_at(MonotonicMs(0)) == FetchAt(52, 4)


def test_a_source_emptied_by_retention_leaves_nothing_to_copy() -> None:
    copy = placed()
    at = copy.fetch_at(MonotonicMs(0))
    assert at is not None
    copy.fetch_refused(at, ErrorCode.offset_out_of_range, 4, MonotonicMs(0))
    copy.source_has(SourceRange(50, 50, 4), MonotonicMs(0))
    fetch(copy, result(high_watermark=50, epoch=4))
    assert (copy.has_all, copy.reached, copy.lag_ms(MonotonicMs(0))) == (True, 50, 0)
    assert send(copy).high_watermark == 10, "the destination is reported as caught up"


def test_a_diverged_source_log_fails_the_copy() -> None:
    copy = placed()
    fetch(copy, result(diverging=(2, 6)))
    assert copy.failure is not None
    assert copy.failure.error is MirrorError.UNEXPECTED_TRUNCATION
    assert copy.fetch_at(MonotonicMs(0)) is None
    shortened = placed()
    at = shortened.fetch_at(MonotonicMs(0))
    assert at is not None
    shortened.fetch_refused(at, ErrorCode.offset_out_of_range, 4, MonotonicMs(0))
    shortened.source_has(SourceRange(0, 0, 4), MonotonicMs(0))
    assert shortened.failure is not None
    assert shortened.failure.error is MirrorError.UNEXPECTED_TRUNCATION


def test_an_offset_missing_at_one_leader_only_is_no_failure() -> None:
    copy = placed()
    at = copy.fetch_at(MonotonicMs(0))
    assert at is not None
    copy.fetch_refused(at, ErrorCode.offset_out_of_range, 3, MonotonicMs(0))
    copy.source_has(SourceRange(0, 0, 7), MonotonicMs(0))
    assert (copy.failure, copy.fetch_at(MonotonicMs(0))) == (None, at)
    copy.fetch_refused(at, ErrorCode.offset_out_of_range, 7, MonotonicMs(0))
    copy.source_has(SourceRange(0, 0, 7), MonotonicMs(0))
    assert copy.failure is not None


def test_a_leader_of_an_older_epoch_is_retried_until_the_timeout() -> None:
    copy = placed()
    fetch(copy, result(diverging=(1, 6), epoch=2), 0)
    assert (copy.failure, copy.stage) == (None, Stage.COPY)
    fetch(copy, result(diverging=(1, 6), epoch=2), RETRY_TIMEOUT_MS)
    message = "the source's leader epoch is 2, and batches of epoch 3 were copied from it"
    assert copy.failure == Failure(MirrorError.NON_MONOTONIC_SOURCE_EPOCH, message)


def test_an_idle_copy_reports_the_source_position_every_second() -> None:
    copy = placed()
    fetch(copy, result(high_watermark=10), 0)
    telling = send(copy, 0)
    copy.appended(telling, EndOfLog(10, 3))
    assert copy.next_append(MonotonicMs(5_000)) is None, "the source reported nothing new"
    copy.source_unchanged(MonotonicMs(500))
    assert copy.next_append(MonotonicMs(500)) is None
    assert copy.next_append(MonotonicMs(1_000)) == Append(None, 10, -1, 3, 10)


def test_lag_is_the_time_since_it_was_caught_up() -> None:
    copy = placed()
    assert copy.lag_ms(MonotonicMs(0)) == -1
    fetch(copy, result(high_watermark=10), 1_000)
    assert copy.lag_ms(MonotonicMs(1_500)) == 0
    assert copy.lag_ms(MonotonicMs(9_000)) == 8_000, "the source's newer records are unknown"
    fetch(copy, result(batch(10), high_watermark=12), 9_000)
    assert copy.lag_ms(MonotonicMs(9_500)) == 8_500
    copy.appended(send(copy, 9_500), EndOfLog(12, 3))
    assert copy.lag_ms(MonotonicMs(9_600)) == 0


def test_a_stopped_copy_releases_its_bytes() -> None:
    copy = placed()
    at = copy.fetch_at(MonotonicMs(0))
    assert at is not None
    chunk = copy.fetched(at, result(batch(10)), MonotonicMs(0))
    assert chunk is not None
    copy.stop()
    assert (chunk.released, len(chunk.records), copy.stage, copy.failure) == (True, 0, Stage.ENDED, None)
