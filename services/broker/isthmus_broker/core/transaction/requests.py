"""The requests to a transaction coordinator, and its responses, independent of the versions on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId

from isthmus_broker.core.transaction.records import NO_EPOCH, NO_PRODUCER_ID, TopicPartition
from isthmus_broker.core.transaction.states import State

NO_PRODUCER: Final = ProducerId(NO_PRODUCER_ID, NO_EPOCH)
NOTHING_KNOWN: Final = ProducerId(0, 0)
"""What Kafka describes with an error."""
VERSION_2: Final = 2
"""The transaction.version with an epoch for each transaction (KIP-890)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """Give the transactional id a producer, and fence the one before."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerId | None = None
    """The producer that the client had; another one than the current is refused."""
    spare_id: int | None = None
    """A producer id to be used if one is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Add partitions to the transaction, or only check that they are part of it."""

    transactional_id: str
    producer: ProducerId
    partitions: frozenset[TopicPartition]
    version: int
    """The transaction.version whose rules the request follows."""
    verify_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """Commit or abort the transaction."""

    transactional_id: str
    producer: ProducerId
    commits: bool
    version: int
    spare_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTimedOut:
    """Abort a transaction that timed out when a producer id was needed for it."""

    transactional_id: str
    producer: ProducerId
    spare_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersWritten:
    """These partitions have the marker of the decided transaction, or no longer exist."""

    transactional_id: str
    producer: ProducerId
    """As in the marker."""
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    """Describe one transactional id."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """List the transactional ids that pass all filters; an empty filter passes all."""

    states: frozenset[State] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    pattern: str = ""
    only_unknown_states: bool = False
    """Whether the request named only states that do not exist: then nothing passes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The response to a request that changes a transaction, and the producer with which the client continues."""

    error: ErrorCode = ErrorCode.none
    producer: ProducerId = NO_PRODUCER


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """The response to a request that must be repeated with a spare producer id."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The response to `AddPartitions`: one error for all partitions, or one for each."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A transactional id. Of a decided transaction, `partitions` are those without a marker yet."""

    transactional_id: str
    error: ErrorCode = ErrorCode.none
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    producer: ProducerId = NOTHING_KNOWN
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The response to `ListTransactions`."""

    error: ErrorCode = ErrorCode.none
    transactions: tuple[Description, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """An effect: write this marker to these partitions, and report each with `MarkersWritten`."""

    transactional_id: str
    marker: Marker
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Resubmit:
    """An effect: submit the request again, with a spare producer id."""

    request: AbortTimedOut


def refuse(request: object, error: ErrorCode) -> object:
    """The response to any request that could not be served."""
    if isinstance(request, AddPartitions):
        return Verified(dict.fromkeys(request.partitions, error))
    if isinstance(request, DescribeTransaction):
        return Description(transactional_id=request.transactional_id, error=error)
    if isinstance(request, ListTransactions):
        return Listing(error)
    return Outcome(error)
