"""What clients sent, read and committed, and the check that a correct cluster explains all of it. Pure.

The names of violations follow Jepsen's analyses of Kafka. A history is a list of events in the order in which they happened; a value is
unique within its partition. The final read happens when the cluster is healthy again and nothing is sent any more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

Partition = tuple[str, int]
Writer = tuple[int, int]
"""The producer id and the producer epoch of a batch."""
UNKNOWN = -1


class Sent(NamedTuple):
    """A producer sends a value; it may be appended from now on."""

    producer: str
    partition: Partition
    value: bytes
    key: bytes | None = None
    transaction: str | None = None


class Acknowledged(NamedTuple):
    """A value was acknowledged at an offset, which is `UNKNOWN` for a repeated batch."""

    partition: Partition
    value: bytes
    offset: int


class Refused(NamedTuple):
    """A value was refused for good: it must never be read."""

    partition: Partition
    value: bytes


class Ending(NamedTuple):
    """A producer begins to commit or abort a transaction."""

    transaction: str
    commits: bool


class Ended(NamedTuple):
    """The commit or abort of a transaction was confirmed."""

    transaction: str
    commits: bool


class Positioned(NamedTuple):
    """A consumer will read a partition from an offset, or from an unknown one."""

    consumer: str
    partition: Partition
    offset: int = UNKNOWN


class Polled(NamedTuple):
    """A consumer got a record."""

    consumer: str
    partition: Partition
    offset: int
    value: bytes
    read_committed: bool = False


class Trimmed(NamedTuple):
    """Records before an offset may be deleted from now on, by an operator or by retention."""

    partition: Partition
    before: int


class CommitRequested(NamedTuple):
    """A group's offset is sent to the coordinator."""

    group: str
    partition: Partition
    offset: int


class CommitConfirmed(NamedTuple):
    """The coordinator has confirmed the group's offset."""

    group: str
    partition: Partition
    offset: int


class CommitRead(NamedTuple):
    """The group's offset as the coordinator has it; `UNKNOWN` for none."""

    group: str
    partition: Partition
    offset: int


class StillOpen(NamedTuple):
    """A transaction is open, or being ended, although every application has ended its own; `where` is a partition or a transactional id."""

    where: str


class FinalRead(NamedTuple):
    """Everything that a partition has at the end, and who wrote it, if the batches were read as well."""

    partition: Partition
    start: int
    end: int
    records: Mapping[int, bytes]
    writers: Mapping[int, Writer] = MappingProxyType({})
    read_committed: bool = False

    def resent(self) -> int:
        """Copies of records that a client sent again under another producer epoch."""
        return len(self.records) - len({*self.records.values()})


Event = (
    Sent
    | Acknowledged
    | Refused
    | Ending
    | Ended
    | Positioned
    | Polled
    | Trimmed
    | CommitRequested
    | CommitConfirmed
    | CommitRead
    | StillOpen
    | FinalRead
)


def violations(history: Sequence[Event], compacted: Collection[str] = ()) -> list[str]:
    """Every contradiction in a history. Topics in `compacted` keep only the last value of each key."""
    facts = _Facts(history)
    checks = (
        facts.problems,
        _unsent(facts),
        _duplicates(facts),
        _lost(facts, compacted),
        _vanished(facts, compacted),
        _misplaced_sends(history, facts),
        _misplaced_polls(history, facts, compacted),
        _transactions(history, facts),
        _torn(history, facts),
        _commits(history),
        (f"hanging-transaction: {event.where}" for event in history if isinstance(event, StillOpen)),
    )
    return [problem for problems in checks for problem in problems]


class _Facts:
    """What the events together say about each partition."""

    def __init__(self, history: Sequence[Event]) -> None:
        self.sent: dict[Partition, dict[bytes, Sent]] = defaultdict(dict)
        self.acknowledged: dict[Partition, dict[bytes, int]] = defaultdict(dict)
        self.refused: dict[Partition, set[bytes]] = defaultdict(set)
        self.values: dict[Partition, dict[int, bytes]] = defaultdict(dict)
        self.offsets: dict[Partition, dict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.visible: dict[Partition, dict[int, bytes]] = defaultdict(dict)
        """What any consumer of committed records got."""
        self.trimmed: dict[Partition, int] = defaultdict(int)
        self.final: dict[Partition, FinalRead] = {}
        self.problems: list[str] = []
        for event in history:
            self._add(event)

    def _add(self, event: Event) -> None:
        match event:
            case Sent():
                self.sent[event.partition][event.value] = event
            case Acknowledged(partition, value, offset):
                self.acknowledged[partition][value] = offset
                self._place(partition, offset, value, "acknowledged")
            case Refused(partition, value):
                self.refused[partition].add(value)
            case Polled(consumer, partition, offset, value, read_committed):
                self._place(partition, offset, value, f"read by {consumer}")
                if read_committed:
                    self.visible[partition][offset] = value
            case Trimmed(partition, before):
                self.trimmed[partition] = max(self.trimmed[partition], before)
            case FinalRead(partition, _, _, records, _, read_committed):
                self.final[partition] = event
                if read_committed:
                    self.visible[partition].update(records)
                for offset, value in records.items():
                    self._place(partition, offset, value, "read at the end")
            case _:
                pass

    def _place(self, partition: Partition, offset: int, value: bytes, how: str) -> None:
        if offset == UNKNOWN:
            return
        known = self.values[partition].setdefault(offset, value)
        if known != value:
            self.problems.append(
                f"inconsistent-offsets: {_at(partition, offset)} was {known!r}, and {value!r} is {how} there"
            )
        places = self.offsets[partition][value]
        if offset not in places:
            places.append(offset)


def _unsent(facts: _Facts) -> Iterator[str]:
    for partition, offsets in facts.offsets.items():
        for value, places in offsets.items():
            if value not in facts.sent[partition]:
                yield f"unsent: {value!r} at {_at(partition, places[0])} was never sent there"
            elif value in facts.refused[partition]:
                yield f"aborted-read: {value!r} at {_at(partition, places[0])} had been refused"


def _duplicates(facts: _Facts) -> Iterator[str]:
    """Values at several offsets. Brokers remove the duplicates of one producer epoch; a client that took its first attempt for lost may
    have sent the value again as a new record of its next epoch.
    """
    for partition, offsets in facts.offsets.items():
        final = facts.final.get(partition)
        writers = final.writers if final is not None else {}
        for value, places in offsets.items():
            if len(places) > 1 and not _rises([writers.get(place) for place in sorted(places)]):
                yield f"duplicate: {value!r} is in {partition[0]}-{partition[1]} at the offsets {sorted(places)}"


def _rises(writers: Sequence[Writer | None]) -> bool:
    """Whether all are one producer, each under a later epoch than the one before it."""
    known = [writer for writer in writers if writer is not None]
    epochs = [epoch for _, epoch in known]
    return (
        len(known) == len(writers)
        and len({producer_id for producer_id, _ in known}) == 1
        and all(a < b for a, b in pairwise(epochs))
    )


def _lost(facts: _Facts, compacted: Collection[str]) -> Iterator[str]:
    """Acknowledged records that are missing in the final read, and records that were deleted without reason."""
    for partition, final in facts.final.items():
        present = set(final.records.values())
        start = max(facts.trimmed[partition], 0)
        if final.start > start:
            yield f"lost-write: {_at(partition, final.start)} is the log's start, but nothing above {start} was to be deleted"
        replaced = _replaced(facts, partition) if partition[0] in compacted else frozenset()
        for value, offset in facts.acknowledged[partition].items():
            if value in present or value in replaced or (offset != UNKNOWN and offset < final.start):
                continue
            if offset == UNKNOWN and start > 0:
                continue  # it may have been deleted
            kind = "unseen" if offset >= final.end else "lost-write"
            yield f"{kind}: {value!r} was acknowledged at {_at(partition, offset)}, and is missing in the log {final.start}..{final.end}"


def _vanished(facts: _Facts, compacted: Collection[str]) -> Iterator[str]:
    """Records that a consumer of committed records got, and that are missing in the final read."""
    for partition, final in facts.final.items():
        if partition[0] in compacted:
            continue
        for offset, value in facts.visible[partition].items():
            if offset >= final.start and offset not in final.records:
                kind = "unseen" if offset >= final.end else "lost-write"
                yield f"{kind}: {value!r} was read at {_at(partition, offset)}, and is missing in the log {final.start}..{final.end}"


def _replaced(facts: _Facts, partition: Partition) -> set[bytes]:
    """Values that a later value of the same key replaces, or may replace."""
    sent, offsets = facts.sent[partition], facts.offsets[partition]
    newest: dict[bytes | None, int] = {}
    for value, places in offsets.items():
        if value in sent:
            key = sent[value].key
            newest[key] = max(newest.get(key, -1), *places)
    return {
        value
        for value, event in sent.items()
        if value not in offsets or max(offsets[value]) < newest.get(event.key, -1)
    }


def _misplaced_sends(history: Sequence[Event], facts: _Facts) -> Iterator[str]:
    last: dict[tuple[str, Partition], tuple[int, bytes]] = {}
    for event in history:
        if not isinstance(event, Sent):
            continue
        offset = _offset_of(event, facts)
        if offset == UNKNOWN:
            continue
        before, value = last.get((event.producer, event.partition), (UNKNOWN, b""))
        if offset <= before:
            yield (
                f"nonmonotonic-send: {event.producer} sent {value!r} before {event.value!r}, which is at "
                f"{_at(event.partition, offset)}, not above {before}"
            )
        last[event.producer, event.partition] = offset, event.value


def _offset_of(event: Sent, facts: _Facts) -> int:
    """Where an acknowledged value is: as acknowledged, or else the only place where it was read."""
    offset = facts.acknowledged[event.partition].get(event.value)
    if offset != UNKNOWN:
        return UNKNOWN if offset is None else offset
    places = facts.offsets[event.partition].get(event.value, [])
    return places[0] if len(places) == 1 else UNKNOWN


def _misplaced_polls(history: Sequence[Event], facts: _Facts, compacted: Collection[str]) -> Iterator[str]:
    known = {partition: sorted(values) for partition, values in facts.values.items()}
    positions: dict[tuple[str, Partition], int] = {}
    for event in history:
        if isinstance(event, Positioned):
            positions[event.consumer, event.partition] = event.offset
        if not isinstance(event, Polled):
            continue
        name, at = (event.consumer, event.partition), event.offset
        position = positions.get(name, UNKNOWN)
        positions[name] = at + 1
        if position == UNKNOWN:
            continue
        if at < position:
            yield f"nonmonotonic-poll: {event.consumer} got {_at(event.partition, at)} where {position} was next"
        elif event.partition[0] not in compacted:
            offsets = known[event.partition]
            expected = offsets[bisect_left(offsets, max(position, min(facts.trimmed[event.partition], at)))]
            if expected < at and not _is_hidden(event, facts, expected):
                yield f"poll-skip: {event.consumer} got {_at(event.partition, at)} and not {expected} before it"


def _is_hidden(event: Polled, facts: _Facts, offset: int) -> bool:
    """Whether a consumer of committed records may pass over that offset: not if another one got the record."""
    if offset in facts.visible[event.partition]:
        return False
    sent = facts.sent[event.partition].get(facts.values[event.partition][offset])
    return event.read_committed and sent is not None and sent.transaction is not None


def _transactions(history: Sequence[Event], facts: _Facts) -> Iterator[str]:
    """Consumers of committed records get no record of an aborted or open transaction."""
    outcome: dict[str, bool] = {}
    for event in history:
        if isinstance(event, Ending):
            outcome[event.transaction] = event.commits
        for reader, partition, value in _committed_reads(event):
            sent = facts.sent[partition].get(value)
            if sent is None or sent.transaction is None or outcome.get(sent.transaction):
                continue
            kind = "aborted-read" if sent.transaction in outcome else "precommitted-read"
            yield f"{kind}: {reader} got {value!r} of {sent.transaction}"


def _torn(history: Sequence[Event], facts: _Facts) -> Iterator[str]:
    """A transaction is in the final read of committed records as a whole or not at all, and as a whole if its commit was confirmed."""
    ended = {event.transaction: event.commits for event in history if isinstance(event, Ended)}
    sent: dict[str, list[Sent]] = defaultdict(list)
    for event in history:
        if isinstance(event, Sent) and event.transaction is not None:
            sent[event.transaction].append(event)
    present = {
        partition: set(final.records.values()) for partition, final in facts.final.items() if final.read_committed
    }
    for transaction, events in sent.items():
        if any(event.partition not in present for event in events):
            continue
        missing = [event.value for event in events if event.value not in present[event.partition]]
        if missing and len(missing) < len(events):
            yield f"torn-transaction: {transaction} has {len(events)} records, and {missing[:3]} are missing"
        elif missing and ended.get(transaction):
            yield f"lost-write: {transaction} was committed, and is missing"
        last: dict[Partition, int] = {}
        for event in () if missing else events:
            (offset, *_) = facts.offsets[event.partition][event.value]
            if offset <= last.get(event.partition, UNKNOWN):
                yield f"nonmonotonic-send: {event.value!r} is at {_at(event.partition, offset)}, before what was sent before it"
            last[event.partition] = offset


def _committed_reads(event: Event) -> Iterator[tuple[str, Partition, bytes]]:
    """Readers of committed records, and what they got."""
    match event:
        case Polled(consumer, partition, _, value, True):
            yield consumer, partition, value
        case FinalRead(partition, _, _, records, _, True):
            for value in records.values():
                yield "the final read", partition, value
        case _:
            pass


def _commits(history: Sequence[Event]) -> Iterator[str]:
    """A group's offset is the last confirmed one, or one that was requested and never confirmed: such a request may arrive late."""
    confirmed: dict[tuple[str, Partition], int] = defaultdict(lambda: UNKNOWN)
    unconfirmed: dict[tuple[str, Partition], set[int]] = defaultdict(set)
    for event in history:
        match event:
            case CommitRequested(group, partition, offset):
                unconfirmed[group, partition].add(offset)
            case CommitConfirmed(group, partition, offset):
                confirmed[group, partition] = offset
                unconfirmed[group, partition].discard(offset)
            case CommitRead(group, partition, offset):
                last, others = confirmed[group, partition], unconfirmed[group, partition]
                if offset != last and offset not in others:
                    yield (
                        f"lost-commit: group {group} has {offset} of {partition[0]}-{partition[1]}, not {last}"
                        f" or one of {sorted(others)}"
                    )
            case _:
                pass


def _at(partition: Partition, offset: int) -> str:
    return f"{partition[0]}-{partition[1]}@{offset}"
