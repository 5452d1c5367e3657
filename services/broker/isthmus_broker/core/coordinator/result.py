"""What a coordinator's handler returns: records to append, and how and when the client gets its response.

Record          one key and value of the log, as entities that know their own wire format
RequestContext  a request's header and connection, as far as a handler needs them
Result          records out, a response held until they are committed
Outbox          responses, effects and notes that do not depend on an append
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from isthmus_model.clocks import Now
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId

from isthmus_broker.core.log.verification import NOT_VERIFIED

_PREFIX: Final = struct.Struct(">h")


class Entity(Protocol):
    """A key or a value: `prefix` is the number in front, the record's type for a key and the version for a value."""

    @property
    def prefix(self) -> int:
        """The 16-bit number before the fields."""
        ...

    def body(self) -> bytes:
        """The fields as bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """One record; `value` None is a tombstone."""

    key: Entity
    value: Entity | None = None

    def encode(self) -> tuple[bytes, bytes | None]:
        """The bytes that go to the log."""
        return _encode(self.key), None if self.value is None else _encode(self.value)


def _encode(entity: Entity) -> bytes:
    return _PREFIX.pack(entity.prefix) + entity.body()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Parts of the request's header and connection.

    `client_id` is empty where the header has null. `client_host` has Kafka's form of an address: a slash, then the number.
    """

    api_version: int
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one operation.

    A handler changes nothing that is replicated: replaying `records` does, after their append. `response` is sent once
    the records, or without records everything appended before, are committed; None when the handler responded through the outbox or
    parked the request.
    """

    records: tuple[Record, ...] = ()
    # Whether the records must be one batch; otherwise they are as many as the topic's max.message.bytes requires.
    is_atomic: bool = True
    # The transaction that the records belong to: they take effect when its marker is replayed.
    producer: ProducerId | None = None
    # The number of the verification that the transaction is ongoing, see `log.verification`.
    verification: int = NOT_VERIFIED
    # Ends a transaction, in place of records.
    marker: Marker | None = None
    response: object | None = None
    # Whether the response reflects committed state only, and so need not wait.
    is_committed: bool = False
    # Called instead of replaying `records`, where memory already contains their effect, or more.
    apply: Callable[[], None] | None = None
    # Called once: with ErrorCode.none when the records are committed, with the error when they were not appended, or not committed within
    # the write timeout.
    then: Callable[[ErrorCode, Now], None] | None = None


NOTHING: Final = Result()


@dataclass(frozen=True, slots=True)
class Note:
    """A fact for logs and metrics, without effect."""

    event: str
    subject: str
    detail: str = ""


@dataclass(slots=True)
class Outbox:
    """Responses, effects and notes to be carried out at once."""

    replies: list[tuple[int, object]] = field(default_factory=list)
    effects: list[object] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def reply(self, token: int, response: object) -> None:
        """Send the response to the request of `token`."""
        self.replies.append((token, response))

    def emit(self, effect: object) -> None:
        """Have the edge carry out something other than an append or a response."""
        self.effects.append(effect)

    def note(self, event: str, subject: str, detail: str = "") -> None:
        """Report what happened, for logs and metrics."""
        self.notes.append(Note(event, subject, detail))
