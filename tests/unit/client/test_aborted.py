"""What a reader of committed records gets from a log of interleaved transactions, against a model that looks at every record alone."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_client.batch_reader import visible_records
from isthmus_wire.markers import Marker, ProducerId, build_marker
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch, header_at, set_base_offset

PLAIN, DATA, COMMIT, ABORT = "plain", "data", "commit", "abort"


class Aborted(NamedTuple):
    """An aborted transaction as the broker's index has it: the last offset is that of the marker."""

    producer: int
    first: int
    last: int


class Log:
    """A log and what became of each record."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.end = 0
        self.aborted: list[Aborted] = []
        self.plain: set[int] = set()
        self.committed: set[int] = set()
        self._open: dict[int, list[int]] = {}

    def append(self, kind: str, producer: int, count: int) -> None:
        if kind in (COMMIT, ABORT):
            self._finish(producer, committed=kind == COMMIT)
            return
        offsets = range(self.end, self.end + count)
        if kind == PLAIN:
            self.plain.update(offsets)
        else:
            self._open.setdefault(producer, []).extend(offsets)
        self._add(
            build_batch(
                [NewRecord(None, b"%d" % offset, 0) for offset in offsets],
                producer_id=producer,
                producer_epoch=0,
                attributes=TRANSACTIONAL_BIT if kind == DATA else 0,
            )
        )

    def _finish(self, producer: int, *, committed: bool) -> None:
        marker = self.end
        self._add(build_marker(Marker(ProducerId(producer, 0), committed, 0), 0))
        offsets = self._open.pop(producer, [])
        if committed:
            self.committed.update(offsets)
        elif offsets:  # without data there is no entry in the index
            self.aborted.append(Aborted(producer, offsets[0], marker))

    def _add(self, data: bytes) -> None:
        batch = bytearray(data)
        set_base_offset(batch, self.end, 0)
        self.batches.append((self.end, bytes(batch)))
        self.end = header_at(batch).last_offset + 1

    @property
    def last_stable(self) -> int:
        return min((offsets[0] for offsets in self._open.values()), default=self.end)


STEPS = st.lists(
    st.tuples(st.sampled_from([PLAIN, DATA, DATA, COMMIT, ABORT]), st.integers(1, 2), st.integers(1, 3)),
    min_size=10,
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS, data=st.data())
def test_committed_records_are_returned_once_from_any_position(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    log = Log()
    for step in steps:
        log.append(*step)
    start = data.draw(st.just(0) | st.integers(0, log.last_stable))
    stable = [(base, batch) for base, batch in log.batches if base < log.last_stable]
    served = [(base, batch) for base, batch in stable if header_at(batch).last_offset >= start]
    served = served[: data.draw(st.just(len(served)) | st.integers(0, len(served)))]
    end = max((header_at(batch).last_offset + 1 for _, batch in served), default=start)
    bound = data.draw(st.integers(end, max(end, log.end)))  # the index may list transactions beyond the data
    listed = [(one.producer, one.first) for one in log.aborted if one.last >= start and one.first < bound]

    returned = list(
        visible_records(
            b"".join(batch for _, batch in served), start, data.draw(st.permutations(listed)), read_committed=True
        )
    )
    offsets = [record.offset for record, _ in returned if record is not None]
    assert offsets == [at for at in range(start, end) if at in log.plain | log.committed]
    assert [record.value for record, _ in returned if record is not None] == [b"%d" % at for at in offsets]
    assert (returned[-1][1] if returned else start) == end


@given(steps=STEPS)
def test_a_reader_of_uncommitted_records_gets_everything_but_markers(steps: list[tuple[str, int, int]]) -> None:
    log = Log()
    for step in steps:
        log.append(*step)
    returned = visible_records(b"".join(batch for _, batch in log.batches), 0, (), read_committed=False)
    markers = {base for base, batch in log.batches if header_at(batch).is_control}
    assert [record.offset for record, _ in returned if record is not None] == [
        offset for offset in range(log.end) if offset not in markers
    ]
