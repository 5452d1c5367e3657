"""The check that every input record took effect exactly once, in the words of tests/histories.py.

Each input record counts as an output record that was acknowledged; the output must be those records, each once, and in the order of their
input. What no consumer of committed records may see is checked with the names of transactions, which the application puts into values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.exactly_once.reader import Contents, Record
from tests.exactly_once.workload import Workload, group_of, transformed
from tests.histories import (
    UNKNOWN,
    Acknowledged,
    CommitConfirmed,
    CommitRead,
    Ending,
    Event,
    FinalRead,
    Partition,
    Polled,
    Positioned,
    Sent,
    violations,
)


class Outcome(NamedTuple):
    """What a workload left, and what was observed while it ran."""

    input: Sequence[Contents]
    output: Sequence[Contents]
    polled: Sequence[Record]
    """What a consumer of committed records got while the applications ran."""
    offsets: Mapping[Partition, int]
    """Of the group."""
    endings: Collection[Ending]
    """Of transactions, by applications that report them."""


def exactly_once_violations(workload: Workload, outcome: Outcome) -> list[str]:
    """Every contradiction to exactly-once."""
    effects = _effects if workload.kind == "transform" else _sources
    histories: list[list[Event]] = [
        [*_expected(workload, outcome.input), *_final(outcome.output, effects)],
        _observed(workload, outcome),
        list(_offsets(workload, outcome)),
    ]
    if workload.kind == "aggregate":
        histories.append([*_expected_counts(workload, outcome.input), *_final(outcome.output, _counts)])
    return [violation for history in histories for violation in violations(history)]


# -- effects: what each input record becomes ---------------------------------------------------------------------------------


def _expected(workload: Workload, contents: Iterable[Contents]) -> Iterator[Event]:
    """Each input record becomes one output record; those of a key and an input partition stay in order."""
    for record in _records(contents):
        number, place = int(record.value), b"%d:%d" % (record.partition[1], record.offset)
        if workload.kind == "transform":
            key = record.key
            value = b"%b %d %b" % (key, transformed(number), place)
        else:
            key = b"%d" % group_of(number)
            value = b"%b %b" % (key, place)
        partition = workload.output, workload.output_partition(int(key))
        yield Sent(f"key {key.decode()} of input partition {record.partition[1]}", partition, value, key)
        yield Acknowledged(partition, value, UNKNOWN)


def _effects(record: Record) -> bytes:
    """Without the name of the transaction."""
    return record.key + b" " + record.value.rpartition(b" ")[0]


def _sources(record: Record) -> bytes:
    """Without the count."""
    return record.key + b" " + record.value.partition(b" ")[2]


def _expected_counts(workload: Workload, contents: Iterable[Contents]) -> Iterator[Event]:
    """The counts of each group are 1, 2, 3 and so on."""
    for group, count in Counter(group_of(int(record.value)) for record in _records(contents)).items():
        partition = workload.output, workload.output_partition(group)
        for number in range(1, count + 1):
            value = b"%d %d" % (group, number)
            yield Sent(f"group {group}", partition, value)
            yield Acknowledged(partition, value, UNKNOWN)


def _counts(record: Record) -> bytes:
    return record.key + b" " + record.value.partition(b" ")[0]


def _final(contents: Iterable[Contents], value_of: Callable[[Record], bytes]) -> Iterator[FinalRead]:
    for each in contents:
        records = {record.offset: value_of(record) for record in each.records}
        yield FinalRead(each.partition, each.start, each.end, records)


# -- observations: what consumers of committed records got --------------------------------------------------------------------


def _observed(workload: Workload, outcome: Outcome) -> list[Event]:
    """Whether a transaction had begun to commit is known only in the end, so the endings come first."""
    seen = {(record.partition, record.value): record for record in (*_records(outcome.output), *outcome.polled)}
    names_transactions = workload.kind == "transform"
    history: list[Event] = [
        Sent(
            "application",
            record.partition,
            record.value,
            record.key,
            _transaction(record) if names_transactions else None,
        )
        for record in seen.values()
    ]
    history += outcome.endings
    history += [Positioned("reader", each.partition, each.start) for each in outcome.output]
    history += [
        Polled("reader", each.partition, each.offset, each.value, read_committed=True) for each in outcome.polled
    ]
    for each in outcome.output:
        records = {record.offset: record.value for record in each.records}
        history.append(FinalRead(each.partition, each.start, each.end, records, read_committed=True))
    return history


def _transaction(record: Record) -> str:
    return record.value.rpartition(b" ")[2].decode()


# -- offsets: the group has read all ------------------------------------------------------------------------------------------


def _offsets(workload: Workload, outcome: Outcome) -> Iterator[Event]:
    for each in outcome.input:
        yield CommitConfirmed(workload.name, each.partition, each.end)
        yield CommitRead(workload.name, each.partition, outcome.offsets.get(each.partition, UNKNOWN))


def _records(contents: Iterable[Contents]) -> Iterator[Record]:
    for each in contents:
        yield from each.records
