"""What a log must contain after a start, given what was done to it and how the last process ended."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from isthmus_broker.core.log.epochs import EpochHistory
from isthmus_broker.core.log.producer_state import AbortedTransaction, ProducerState
from isthmus_wire.markers import marker_of
from isthmus_wire.records import BatchHeader, Record, header_at, iterate_records

from tests.sim.world import Violation

Ending = Literal["stop", "kill", "power"]
_SEVERITY: Final[tuple[Ending, ...]] = ("stop", "kill", "power")
Epoch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """An appended batch."""

    header: BatchHeader
    data: bytes

    @property
    def end(self) -> int:
        return self.header.last_offset + 1

    def records(self) -> list[Record]:
        return list(iterate_records(self.data))


@dataclass(slots=True)
class Version:
    """One history of a log: a truncation begins another."""

    origin: int = 0
    """The offset at which the log was empty."""
    batches: list[Batch] = field(default_factory=list)
    epochs: set[Epoch] = field(default_factory=set)
    """Every (epoch, start) that was assigned."""
    start: int = 0
    """The log start offset."""
    confirmed_start: int = 0
    """The log start offset that no later start may go below."""
    gap_ends: frozenset[int] = frozenset()
    """Ends after truncations to an offset that the last batch left does not reach: the log has ended within a gap."""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.origin

    def end_below(self, offset: int) -> int:
        """The end of the last batch up to an offset, which may be in the gap after it."""
        return max((batch.end for batch in self.batches if batch.end <= offset), default=min(self.origin, offset))

    def ends_at(self, offset: int) -> bool:
        """Whether the log had that end at some time."""
        return offset in {self.origin, self.start, *self.gap_ends} or any(batch.end == offset for batch in self.batches)

    def below(self, offset: int) -> "Version":
        """The history up to an offset."""
        batches = [batch for batch in self.batches if batch.header.base_offset < offset]
        epochs = {epoch for epoch in self.epochs if epoch[1] <= offset}
        gap_ends = frozenset(end for end in self.gap_ends if end <= offset)
        return Version(
            self.origin, batches, epochs, min(self.start, offset), min(self.confirmed_start, offset), gap_ends
        )


@dataclass(frozen=True, slots=True)
class Content:
    """What is read from a log after a start."""

    base: int = field(compare=False)
    """Where its files begin: records below the start may still be in them, and need not be in a copy."""
    start: int
    end: int
    batches: Sequence[Batch]
    epochs: Sequence[Epoch]


class Truth:
    """The histories of one log that the disk may hold."""

    def __init__(self, name: str, *, compacts: bool = False) -> None:
        self.name = name
        self.compacts = compacts
        self.current = Version()
        self.cached = [self.current]
        """Histories that the page cache may hold: two while a truncation is under way."""
        self.stored = [self.current]
        """Histories that the platter may hold."""
        self.durable_end = 0
        """Everything below it in the current history survives a power loss."""
        self.recovery_point = 0
        """What the product claims of that; above the last record, if the log ends in a gap."""
        self.cached_end = 0
        """Everything below it survives a kill."""
        self.ending: Ending = "stop"
        """The worst end of a process since the last check."""

    # -- what is done to the log ---------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """An append that begins; `done` ends it."""
        self.current.batches.append(batch)
        epoch = batch.header.leader_epoch
        if epoch > max((each for each, _ in self.current.epochs), default=-1):
            self.current.epochs.add((epoch, batch.header.base_offset))

    def assign_epoch(self, epoch: int) -> None:
        self.current.epochs.add((epoch, self.current.end))

    def truncate(self, end: int) -> None:
        """A truncation that begins; `done` ends it."""
        self._begin(self.current.below(end))
        kept = {epoch for epoch in self.current.epochs if epoch[1] < end}
        self.current.epochs = kept
        self.current.gap_ends |= {end}

    def restart(self, offset: int) -> None:
        """A restart at an offset that begins; `done` ends it."""
        self._begin(Version(offset, start=offset, confirmed_start=0))

    def _begin(self, version: Version) -> None:
        self.durable_end = min(self.durable_end, version.end)
        self.cached_end = min(self.cached_end, version.end)
        self.current = version
        self.cached.append(version)
        self.stored.append(version)

    def done(self) -> None:
        """The operation is complete."""
        self.cached = [self.current]
        self.cached_end = self.current.end

    def raise_start(self, offset: int) -> None:
        self.current.start = max(self.current.start, offset)

    def synced(self, offset: int) -> None:
        """The product claims that everything below is durable."""
        self.recovery_point = offset
        end = self.current.end_below(offset)
        if end > self.durable_end:
            self.durable_end = end
            self.stored = [self.current]

    # -- what is there after a start -----------------------------------------------------------------------------------------

    def ended(self, ending: Ending) -> None:
        """A process ended."""
        self.ending = max(self.ending, ending, key=_SEVERITY.index)

    def check(self, content: Content) -> None:
        """Raise Violation if the content is not what the ending may leave; continue from it otherwise."""
        ending, self.ending = self.ending, "stop"
        floor = self.durable_end if ending == "power" else self.cached_end
        if content.end < floor:
            raise Violation(f"lost-records: {self.name} ends at {content.end}, not at {floor} (after {ending})")
        versions = self.stored if ending == "power" else self.cached
        start_max = max(
            version.start for version in versions
        )  # a restart that was cut short may have recorded its start
        why = None
        for version in reversed(versions):
            reason = self._differs(content, version, start_max)
            if reason is None:
                self._continue(_left_of(version, content), ending)
                return
            why = why if version is not self.current and why is not None else reason
        raise Violation(f"{why or 'no-history'} ({self.name} after {ending})")

    def _continue(self, version: Version, ending: Ending) -> None:
        if ending == "power":
            self.durable_end = version.end
            self.stored = []
        self.current = version
        self.stored.append(version)
        self.done()

    def _differs(self, content: Content, version: Version, start_max: int) -> str | None:
        if content.base < version.origin:
            return f"log-base: its files begin at {content.base}, below {version.origin}"
        start_max = self._start_max(content, version, start_max)
        is_restarted = content.start == content.end and version.confirmed_start <= content.end <= start_max
        if not is_restarted and not version.ends_at(content.end):
            return f"log-end: it ends at {content.end}, where no batch ended"
        if not min(version.confirmed_start, content.end) <= content.start <= start_max:
            return f"log-start: it is {content.start}, not within {version.confirmed_start} and {start_max}"
        expected = [b for b in _left_of(version, content).batches if b.end > content.start]
        differs = _compacted(content.batches, expected) if self.compacts else _unequal(content.batches, expected)
        return differs or self._wrong_epochs(content, version)

    def _start_max(self, content: Content, version: Version, start_max: int) -> int:
        """The highest log start. A log without records continues at its recovery point, if there were none before it."""
        has_lost = any(start_max < batch.end <= content.start for batch in version.batches)
        return start_max if content.start < content.end or has_lost else max(start_max, self.recovery_point)

    def _wrong_epochs(self, content: Content, version: Version) -> str | None:
        history = EpochHistory(content.epochs)
        if list(history.entries) != list(content.epochs):
            return f"epochs: {content.epochs} do not rise"
        for batch in content.batches:
            at = max(batch.header.base_offset, content.start)
            if at < batch.end and history.epoch_at(at) != batch.header.leader_epoch:
                return f"epochs: {content.epochs} are not those of the batch {batch.header.base_offset} of {batch.header.leader_epoch}"
        for epoch, start in content.epochs:
            begins = [first for each, first in version.epochs if each == epoch]
            if not any(self._is_begin(first, start, content, version) for first in begins):
                return f"epochs: {epoch} begins at {start}, not at {begins}"
        return None

    def _is_begin(self, first: int, start: int, content: Content, version: Version) -> bool:
        """Whether an epoch that began at `first` may be recorded at `start`: there is no record between the two."""
        if first > start:
            return False
        visible = (batch for batch in version.batches if batch.end > content.start)
        is_empty = not any(first <= batch.header.base_offset < start for batch in visible)
        return is_empty or self.compacts or start == content.start


def _left_of(version: Version, content: Content) -> Version:
    """The part of a history that is left. A log whose end was lost, up to its start, starts again there, perhaps inside a batch."""
    if content.start == content.end and all(batch.end != content.end for batch in version.batches):
        confirmed_start = min(version.confirmed_start, content.start)
        return Version(content.end, [], set(content.epochs), content.start, confirmed_start)
    left = version.below(content.end)
    left.start = content.start
    left.epochs = {epoch for epoch in left.epochs if epoch[1] < content.end or epoch in content.epochs}
    return left


def _unequal(batches: Sequence[Batch], expected: Sequence[Batch]) -> str | None:
    offsets = [b.header.base_offset for b in batches]
    if offsets != [b.header.base_offset for b in expected]:
        return f"batches: it has {offsets}, not {[b.header.base_offset for b in expected]}"
    changed = next((b.header.base_offset for b, e in zip(batches, expected, strict=True) if b.data != e.data), None)
    return None if changed is None else f"batches: the one at {changed} has changed"


def _compacted(batches: Sequence[Batch], expected: Sequence[Batch]) -> str | None:
    """Compaction keeps the newest record of every key, except for a tombstone without older records."""
    appended = {record.offset: record for batch in expected for record in batch.records()}
    newest = {record.key: record for record in appended.values()}
    kept: dict[bytes | None, list[int]] = {}
    for batch in batches:
        for record in batch.records():
            original = appended.get(record.offset)
            if original is None or (original.key, original.value) != (record.key, record.value):
                return f"batches: the record at {record.offset} was never appended"
            kept.setdefault(record.key, []).append(record.offset)
    for key, record in newest.items():
        if record.offset not in kept.get(key, []) and (record.value is not None or key in kept):
            return f"batches: the newest record of {key!r} at {record.offset} is lost, and {kept.get(key)} remain"
    return None


def producers_of(batches: Iterable[Batch]) -> tuple[ProducerState, list[AbortedTransaction]]:
    """The producer state and aborted transactions of a history."""
    state, aborted = ProducerState(), []
    for batch in batches:
        if batch.header.producer_id < 0:
            continue
        if not batch.header.is_control:
            state.appended(batch.header)
            continue
        marker = marker_of(batch.header, batch.records()[0])
        assert marker is not None
        row = state.ended(batch.header, committed=marker.committed, coordinator_epoch=marker.coordinator_epoch)
        if row is not None:
            aborted.append(row)
    return state, aborted


def batch_at(data: bytes) -> Batch:
    """A batch from its bytes."""
    return Batch(header_at(data), data)
