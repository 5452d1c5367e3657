"""The runtime under a toy state machine: when responses are sent, and the state after a failed append. And the timers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from isthmus_broker.core.coordinator.result import Outbox, Record, RequestContext, Result
from isthmus_broker.core.coordinator.runtime import PENDING_REQUESTS_MAX, BatchAppend, Runtime
from isthmus_broker.core.coordinator.timers import Timers
from isthmus_model.clocks import MonotonicMs, Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from isthmus_wire.records import NewRecord, build_batch

from tests.clocks import at

CONTEXT = RequestContext(api_version=0)
BATCH_BYTES_MAX = 200


@dataclass(frozen=True)
class Word:
    """An entity that is its own text."""

    text: str
    prefix: int = 7

    def body(self) -> bytes:
        return self.text.encode()


@dataclass
class Toy:
    """Records words; `!` appends a record, `!!` many, `?` reads, `committed?` reads committed state, `later` sets a timer that writes."""

    timers: Timers
    outbox: Outbox
    words: list[str] = field(default_factory=list)
    outcomes: list[tuple[str, ErrorCode]] = field(default_factory=list)
    high_watermark: int = 0

    def handle(self, token: int, request: object, context: RequestContext, now: Now) -> Result:
        text = str(request)
        if text == "later":
            self.timers.schedule(
                ("later",), now.monotonic + 10, lambda now: self._write(f"tick@{now.monotonic}"), retry_ms=5
            )
            return Result(response="set")
        if text.endswith("!!"):
            records = tuple(Record(Word(f"{text[:-2]}{number}" + "-" * 60)) for number in range(5))
            return replace(self._write(text), records=records, is_atomic=False)
        if text.endswith("!"):
            return self._write(text)
        if text == "committed?":
            return Result(response=self.high_watermark, is_committed=True)
        return Result(response=list(self.words))

    def _write(self, text: str) -> Result:
        return Result(
            records=(Record(Word(text)),),
            response=f"did {text}",
            then=lambda error, now: self.outcomes.append((text, error)),
        )

    def replay(self, record: Record, offset: int, producer: ProducerId | None, now: Now) -> None:
        assert isinstance(record.key, Word)
        self.words.append(f"{record.key.text}{offset}")

    def committed(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark

    def replaying(self, records: Sequence[Record], last_offset: int) -> None:
        pass

    def end_transaction(self, marker: Marker, offset: int, now: Now) -> None:
        self.words.append(f"{'committed' if marker.committed else 'aborted'} {marker.producer.id}")

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return Record(Word(key[2:].decode())) if key[:2] == b"\0\7" else None

    def loaded(self, view: str, now: Now) -> None:
        self.words.append(f"loaded {view}")

    def unloaded(self) -> None:
        self.outbox.reply(99, "unloaded")

    def metadata(self, view: str, now: Now) -> Result:
        return Result(records=(Record(Word(view)),))


class Bench:
    """A loaded runtime, and the toy in it."""

    def __init__(self) -> None:
        self.toy: Toy
        self.runtime: Runtime[str] = Runtime(self._new, lambda request, context, error: error.name, "v1")
        self.runtime.load_begin(1, lambda: BATCH_BYTES_MAX)
        self.runtime.load_end(at(0))
        self.runtime.take()

    def _new(self, timers: Timers, outbox: Outbox) -> Toy:
        self.toy = Toy(timers, outbox)
        return self.toy

    def submit(self, token: int, request: str, now_ms: int = 0) -> None:
        self.runtime.submit(token, request, CONTEXT, at(now_ms))

    def replies(self) -> list[tuple[int, object]]:
        return list(self.runtime.take().replies)

    def appends(self) -> list[BatchAppend]:
        return list(self.runtime.take().appends)


def test_the_response_to_a_write_waits_for_the_commit() -> None:
    bench = Bench()
    bench.submit(1, "a!")
    assert bench.appends() == [BatchAppend(1, ((b"\0\7a!", None),))]
    bench.runtime.appended(1, 4, at(0))
    assert bench.toy.words == ["loaded v1", "a!4"]
    assert bench.replies() == []
    bench.runtime.committed(4, at(0))
    assert bench.replies() == []
    bench.runtime.committed(5, at(0))
    assert bench.replies() == [(1, "did a!")]
    assert bench.toy.outcomes == [("a!", ErrorCode.none)]


def test_a_read_waits_for_what_it_shows() -> None:
    bench = Bench()
    bench.submit(1, "?")
    assert bench.replies() == [(1, ["loaded v1"])]
    bench.submit(2, "a!")
    bench.runtime.appended(1, 0, at(0))
    bench.submit(3, "?")
    assert bench.replies() == []
    bench.runtime.committed(1, at(0))
    assert bench.replies() == [(2, "did a!"), (3, ["loaded v1", "a!0"])]


def test_requests_wait_for_the_append_under_way_and_see_it() -> None:
    bench = Bench()
    bench.submit(1, "a!")
    bench.submit(2, "?")
    bench.submit(3, "b!")
    assert [append.seq for append in bench.appends()] == [1]
    bench.runtime.appended(1, 0, at(0))
    assert [append.seq for append in bench.appends()] == [2]
    bench.runtime.committed(1, at(0))
    assert bench.replies() == [(1, "did a!"), (2, ["loaded v1", "a!0"])]


def test_an_append_that_fails_never_happened() -> None:
    bench = Bench()
    bench.submit(1, "a!")
    bench.submit(2, "?")
    bench.runtime.append_failed(1, ErrorCode.not_enough_replicas, at(0))
    assert bench.replies() == [(1, "coordinator_not_available"), (2, ["loaded v1"])]
    assert bench.toy.outcomes == [("a!", ErrorCode.coordinator_not_available)]


def test_errors_of_the_log_in_responses_to_clients() -> None:
    for error, expected in {
        ErrorCode.not_leader_or_follower: "not_coordinator",
        ErrorCode.kafka_storage_error: "not_coordinator",
        ErrorCode.request_timed_out: "coordinator_not_available",
        ErrorCode.message_too_large: "unknown_server_error",
        ErrorCode.invalid_producer_epoch: "invalid_producer_epoch",
    }.items():
        bench = Bench()
        bench.submit(1, "a!")
        bench.runtime.append_failed(1, error, at(0))
        assert bench.replies() == [(1, expected)]


def test_requests_before_and_during_the_load_are_refused() -> None:
    bench = Bench()
    bench.runtime.unload(at(0))
    bench.runtime.take()
    bench.submit(1, "?")
    bench.runtime.load_begin(2, lambda: BATCH_BYTES_MAX)
    bench.submit(2, "?")
    assert bench.replies() == [(1, "not_coordinator"), (2, "coordinator_load_in_progress")]
    assert not bench.runtime.active
    assert bench.runtime.deadline() is None


def test_a_load_replays_the_log_and_skips_what_it_does_not_know() -> None:
    bench = Bench()
    bench.runtime.unload(at(0))
    bench.runtime.load_begin(2, lambda: BATCH_BYTES_MAX)
    bench.runtime.load(3, b"\0\7x", None, None, at(0))
    bench.runtime.load(4, b"\0\1y", b"z", None, at(0))
    bench.runtime.metadata("v2", at(0))
    bench.runtime.metadata("v1", at(0))
    bench.runtime.load_end(at(0))
    assert bench.toy.words == ["x3", "loaded v1"]
    bench.submit(1, "?")
    assert bench.replies() == [(99, "unloaded")]  # offset 4 may not be committed
    bench.runtime.committed(5, at(0))
    assert bench.replies() == [(1, ["x3", "loaded v1"])]


def test_a_metadata_change_during_the_load_is_not_lost() -> None:
    """A topic deleted while its groups' shard was loading kept its committed offsets."""
    bench = Bench()
    bench.runtime.unload(at(0))
    bench.runtime.load_begin(2, lambda: BATCH_BYTES_MAX)
    bench.runtime.metadata("v2", at(0))
    bench.runtime.load_end(at(0))
    assert bench.toy.words == ["loaded v1"]
    assert [append.records for append in bench.appends()] == [((b"\0\7v2", None),)]


def test_a_response_is_refused_when_its_records_are_not_committed_in_time() -> None:
    """offsets.commit.timeout.ms had no effect: the response waited for the high watermark forever."""
    bench = Bench()
    bench.submit(1, "a!", 0)
    bench.runtime.appended(1, 0, at(0))
    bench.submit(2, "?", 1_000)
    assert bench.runtime.deadline() == 5_000
    bench.runtime.tick(at(4_999))
    assert bench.replies() == []
    bench.runtime.tick(at(5_000))
    assert bench.replies() == [(1, "coordinator_not_available")]
    assert bench.toy.outcomes == [("a!", ErrorCode.coordinator_not_available)]
    assert bench.runtime.deadline() == 6_000
    bench.runtime.committed(1, at(5_500))
    assert bench.replies() == [(2, ["loaded v1", "a!0"])], "the records stay in the log, and in the state"


def test_a_read_of_committed_state_does_not_wait() -> None:
    bench = Bench()
    bench.submit(1, "a!")
    bench.runtime.appended(1, 0, at(0))
    bench.submit(2, "committed?")
    assert bench.replies() == [(2, 0)]
    bench.runtime.committed(1, at(0))
    bench.submit(3, "committed?")
    assert bench.replies() == [(1, "did a!"), (3, 1)]


def test_records_that_need_not_be_one_batch_are_split_below_the_limit() -> None:
    """The expiry of many offsets was one batch, which failed forever beyond max.message.bytes."""
    bench = Bench()
    bench.submit(1, "a!!")
    bench.submit(2, "b!")
    sizes, offset = [], -1
    for seq in (1, 2, 3, 4, 5):
        (append,) = bench.appends()
        sizes.append(len(build_batch([NewRecord(key, value) for key, value in append.records])))
        offset += len(append.records)
        bench.runtime.appended(seq, offset, at(0))
    assert max(sizes) <= BATCH_BYTES_MAX
    assert [word[:2] for word in bench.toy.words[1:]] == ["a0", "a1", "a2", "a3", "a4"], "nothing in between"
    bench.runtime.committed(4, at(0))
    assert bench.replies() == []
    bench.runtime.committed(5, at(0))
    assert bench.replies() == [(1, "did a!!")]


def test_a_failure_after_the_first_of_several_batches_ends_the_operation() -> None:
    bench = Bench()
    bench.submit(1, "a!!")
    bench.runtime.appended(1, 0, at(0))
    bench.runtime.append_failed(2, ErrorCode.not_enough_replicas, at(0))
    assert bench.replies() == [(1, "coordinator_not_available")]
    assert [word[:2] for word in bench.toy.words[1:]] == ["a0"]
    assert bench.runtime.deadline() is None


def test_unloading_refuses_pending_requests() -> None:
    bench = Bench()
    bench.submit(1, "a!")
    bench.runtime.appended(1, 0, at(0))
    bench.submit(2, "b!")
    bench.submit(3, "?")
    bench.runtime.unload(at(0))
    ready = bench.runtime.take()
    assert ready.appends == ()
    assert ready.replies == (
        (1, "not_coordinator"),
        (2, "not_coordinator"),
        (3, "not_coordinator"),
        (99, "unloaded"),
    )
    assert bench.toy.outcomes == [("a!", ErrorCode.not_coordinator), ("b!", ErrorCode.not_coordinator)]
    bench.runtime.unload(at(0))
    assert bench.replies() == []


def test_requests_beyond_the_limit_are_refused() -> None:
    bench = Bench()
    for token in range(PENDING_REQUESTS_MAX + 1):
        bench.submit(token, "a!")
    assert bench.replies() == []
    bench.submit(-1, "a!")
    assert bench.replies() == [(-1, "coordinator_not_available")]


def test_a_timer_writes_when_it_is_due_and_again_when_that_failed() -> None:
    bench = Bench()
    bench.submit(1, "later", 100)
    assert bench.runtime.deadline() == 110
    bench.runtime.tick(at(109))
    assert bench.appends() == []
    bench.runtime.tick(at(110))
    assert bench.runtime.deadline() is None
    assert bench.appends() == [BatchAppend(1, ((b"\0\7tick@110", None),))]
    bench.runtime.append_failed(1, ErrorCode.request_timed_out, at(112))
    assert bench.runtime.deadline() == 117
    bench.runtime.tick(at(117))
    bench.runtime.appended(2, 0, at(117))
    assert bench.toy.words[-1] == "tick@1170"
    bench.runtime.committed(1, at(117))
    assert bench.runtime.deadline() is None


def test_a_metadata_change_may_write() -> None:
    bench = Bench()
    bench.runtime.metadata("v2", at(0))
    assert bench.appends() == [BatchAppend(1, ((b"\0\7v2", None),))]


# Timers.


def _due(timers: Timers, now_ms: int) -> list[str]:
    names = []
    while (timer := timers.pop_due(MonotonicMs(now_ms))) is not None:
        names.append(timer.key[0])
    return names


def test_timers_are_due_in_order_and_once() -> None:
    timers = Timers()
    for name, due_ms in (("c", 30), ("a", 10), ("b", 20), ("a2", 10)):
        timers.schedule((name,), due_ms, lambda now: Result())
    assert timers.deadline() == 10
    assert _due(timers, 9) == []
    assert _due(timers, 20) == ["a", "a2", "b"]
    assert _due(timers, 99) == ["c"]
    assert timers.deadline() is None


def test_a_timer_moves_later_and_earlier_and_is_cancelled() -> None:
    timers = Timers()
    timers.schedule(("a",), 10, lambda now: Result())
    timers.schedule(("a",), 50, lambda now: Result())
    assert timers.deadline() == 50
    timers.schedule(("a",), 20, lambda now: Result())
    assert timers.deadline() == 20
    timers.schedule(("a",), 40, lambda now: Result())
    timers.schedule_if_absent(("a",), 5, lambda now: Result())
    assert _due(timers, 39) == []
    assert _due(timers, 40) == ["a"]
    timers.schedule(("a",), 60, lambda now: Result())
    timers.cancel(("a",))
    timers.cancel(("a",))
    assert len(timers) == 0
    assert _due(timers, 99) == []


def test_moving_a_timer_later_costs_no_memory() -> None:
    timers = Timers()
    for due_ms in range(10_000):
        timers.schedule(("a",), due_ms, lambda now: Result())
    assert len(timers._heap) == 1
