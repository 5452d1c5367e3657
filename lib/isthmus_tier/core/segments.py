"""A segment in the tier: what identifies it, what it holds, and the states that it passes through.

| state           | may be followed by                             | readable | still in the store |
|-----------------|------------------------------------------------|----------|--------------------|
| COPY_STARTED    | COPY_STARTED, COPY_FINISHED, DELETE_STARTED    | no       | perhaps            |
| COPY_FINISHED   | COPY_FINISHED, DELETE_STARTED                  | yes      | yes                |
| DELETE_STARTED  | DELETE_STARTED, DELETE_FINISHED                | no       | perhaps            |
| DELETE_FINISHED | DELETE_FINISHED                                | no       | no                 |

A segment is announced as COPY_STARTED before its first byte leaves the broker, so whatever a crash leaves in the store is known by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID


class State(IntEnum):
    """States by the number in their records."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.COPY_STARTED: frozenset({State.COPY_STARTED, State.COPY_FINISHED, State.DELETE_STARTED}),
    State.COPY_FINISHED: frozenset({State.COPY_FINISHED, State.DELETE_STARTED}),
    State.DELETE_STARTED: frozenset({State.DELETE_STARTED, State.DELETE_FINISHED}),
    State.DELETE_FINISHED: frozenset({State.DELETE_FINISHED}),
}
"""The states that may follow each state."""


def is_legal(before: State | None, after: State) -> bool:
    """Whether `after` may follow; a segment begins as COPY_STARTED."""
    return after is State.COPY_STARTED if before is None else after in TRANSITIONS[before]


class Place(NamedTuple):
    """A partition. The topic's id separates it from one of the same name that existed before."""

    topic: str
    topic_id: UUID
    partition: int


class EpochStart(NamedTuple):
    """A leader epoch, and the first offset of it."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """One copy of a segment; another attempt to copy the same offsets has another id."""

    place: Place
    id: UUID
    start_offset: int
    end_offset: int
    """The last offset that the segment may hold: the one before the next segment's."""
    epochs: tuple[EpochStart, ...]
    """The leader epochs of its records; the first begins at the start offset."""
    size: int
    """The bytes of its batches, before compression."""
    largest_timestamp: int
    broker_id: int
    """The leader that copied it."""
    changed_ms: int
    """When it entered its state."""
    state: State = State.COPY_STARTED
    custom: bytes | None = None
    """What the store wants to know again when the segment is read."""
    has_aborted: bool = True
    """Whether it may have records of aborted transactions. A writer that does not say so is not trusted."""
