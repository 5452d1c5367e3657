"""The types of the contract between a core and its driver, which the package's documentation states."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from isthmus_model.clocks import MonotonicMs

Event = TypeVar("Event", contravariant=True)
Write = TypeVar("Write", covariant=True)
Send = TypeVar("Send", covariant=True)
Reply = TypeVar("Reply", covariant=True)
Note = TypeVar("Note", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Generic[Write, Send, Reply, Note]):
    """The outputs of a core since the last `take`.

    Two outboxes for messages express "durable before it is sent" in the type: a vote or an acknowledgement that depends on a write is only
    in `send_after_persist`.
    """

    mark: int
    """Counts the Ready values of one core from 1: `persisted(mark)` confirms this one and all before it."""
    persist: tuple[Write, ...] = ()
    send_now: tuple[Send, ...] = ()
    send_after_persist: tuple[Send, ...] = ()
    replies: tuple[Reply, ...] = ()
    """Results for local callers and for the state machine, in order, already safe to act upon."""
    notes: tuple[Note, ...] = ()
    """Facts for logs, metrics and tests; dropping them changes nothing."""

    def __bool__(self) -> bool:
        return bool(self.persist or self.send_now or self.send_after_persist or self.replies or self.notes)


class Core(Protocol[Event, Write, Send, Reply, Note]):
    """The interface of a core."""

    def step(self, event: Event, now_ms: MonotonicMs) -> None:
        """Process one event: a message, a client request, or the result of an output."""

    def tick(self, now_ms: MonotonicMs) -> None:
        """Act on timeouts. Calling it early, late or twice is harmless."""

    def deadline(self) -> int | None:
        """When `tick` is next worth calling; None when only an event can change anything."""

    def take(self) -> Ready[Write, Send, Reply, Note]:
        """Return the outputs and clear them. A Ready without writes needs no `persisted`."""

    def persisted(self, mark: int, now_ms: MonotonicMs) -> None:
        """Every write of the Ready values up to and including `mark` is durable."""


class RandomSource(Protocol):
    """The only randomness a core may use; `random.Random` and the simulation's own stream both fit."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to stop - 1, uniformly distributed."""
