"""Idempotence and open transactions of one partition, derived from its log.

The last five batches of every producer id are kept: the response to a repeated one has its original offset, and a gap in the sequence is
refused. An unknown producer may begin with any sequence number, because its records may have been deleted. A transaction opens with a
producer's first transactional batch and ends with a marker; the first open one bounds the last stable offset. It also bounds it when the
marker is not committed yet: a reader must not get the records without knowing whether they were aborted.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from isthmus_wire.records import NO_PRODUCER, TRANSACTIONAL_BIT, BatchHeader, next_sequence

from isthmus_broker.core.log.verification import NOT_REQUIRED, NOT_VERIFIED, Verifications

WINDOW: Final = 5
"""Batches kept for each producer, which bounds a client's requests in flight."""
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
EPOCH_MAX: Final = 32_767
"""Only markers have it: they end the last transaction of a producer id."""
RAISING_VERSION: Final = 2
"""The transaction.version in which a marker has the epoch of the next transaction."""


class RecentBatch(NamedTuple):
    """One batch of a producer."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class Producer:
    """The state of one producer id."""

    producer_id: int
    epoch: int = NO_EPOCH
    batches: deque[RecentBatch] = field(default_factory=lambda: deque(maxlen=WINDOW))
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        """Sequence of the newest record, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def is_open_in(self, epoch: int) -> bool:
        """Whether a transaction of that epoch is open."""
        return self.transaction_start is not None and self.epoch == epoch

    def duplicate_of(self, header: BatchHeader) -> RecentBatch | None:
        """The earlier batch that this one repeats, if any."""
        if header.producer_epoch != self.epoch:
            return None
        last = header.last_sequence
        for batch in self.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == last:
                return batch
        return None


class Refusal(NamedTuple):
    """Why a batch is refused."""

    error: ErrorCode
    message: str | None = None  # set where Kafka's response has it
    record_errors: tuple[tuple[int, str], ...] = ()
    with_log_start: bool = False  # the response has the log start offset, as in Kafka once the log was read


class AbortedTransaction(NamedTuple):
    """A row of the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducerState:
    """All producers of one partition."""

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.verifications = Verifications()
        self._open: dict[int, int] = {}  # producer id -> first offset, in the order of first offsets
        self._ended: deque[tuple[int, int]] = deque()
        """First offset and marker of the transactions whose markers may not be below the high watermark."""

    def check(self, header: BatchHeader, verification: int = NOT_VERIFIED) -> RecentBatch | Refusal | None:
        """Check whether a client's batch continues its producer's sequence: None if so, the earlier batch if it is a repeat.

        `verification` is the number under which the batch's transaction was verified.
        """
        producer = self.producers.get(header.producer_id)
        if producer is None:
            producer = Producer(header.producer_id)
        elif header.producer_epoch == producer.epoch and producer.batches:
            last = producer.batches[-1].last_sequence
            continues = (header.attributes & TRANSACTIONAL_BIT != 0) == (producer.transaction_start is not None)
            if continues and header.base_sequence == next_sequence(last, 1):
                return None
            repeated = producer.duplicate_of(header)
            if repeated is not None:
                return repeated
        return (
            self._check_transaction(producer, header, verification)
            or _check_epoch(producer, header)
            or self._check_begin(producer, header)
            or _check_sequence(producer, header)
            or _check_kind(producer, header)
        )

    def check_own(self, header: BatchHeader, verification: int) -> Refusal | None:
        """Check a batch of a coordinator of this node; those of transactions have no sequence."""
        if not header.is_transactional:
            return None
        producer = self.producers.get(header.producer_id, Producer(header.producer_id))
        return self._check_transaction(producer, header, verification) or _check_epoch(producer, header)

    def check_marker(self, marker: Marker) -> Refusal | None:
        """Check a marker that a coordinator writes.

        A raised epoch ends the transaction of the epoch before it: one that is not above the current epoch is of an earlier transaction,
        unless it is repeated.
        """
        producer = self.producers.get(marker.producer.id)
        if producer is None:
            return None
        epoch = marker.producer.epoch
        is_repeated = epoch == producer.epoch and (producer.transaction_start is None or epoch == EPOCH_MAX)
        is_raised = marker.transaction_version >= RAISING_VERSION and not is_repeated
        if epoch < producer.epoch or (is_raised and epoch == producer.epoch):
            return Refusal(ErrorCode.invalid_producer_epoch)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            return Refusal(ErrorCode.transaction_coordinator_fenced)
        return None

    def begin_verification(
        self, of: ProducerId, sequence: int, now_ms: int, *, raises_epoch: bool
    ) -> int | Refusal | None:
        """The number of the check that the producer's transaction needs before a batch; None if it is open."""
        producer = self.producers.get(of.id)
        if producer is not None:
            if of.epoch < producer.epoch:
                return Refusal(ErrorCode.invalid_producer_epoch, with_log_start=True)
            if producer.is_open_in(of.epoch):
                return None
        return self.verifications.begin(of.id, of.epoch, sequence, now_ms, raises_epoch=raises_epoch)

    def _check_transaction(self, producer: Producer, header: BatchHeader, verification: int) -> Refusal | None:
        """The first batch of a transaction must have been verified, and the transaction not have ended since."""
        if not header.is_transactional or producer.is_open_in(header.producer_epoch):
            return None
        if header.producer_epoch < producer.epoch:
            return Refusal(ErrorCode.invalid_producer_epoch, with_log_start=True)
        if verification == NOT_REQUIRED:
            return None
        current = self.verifications.find(header.producer_id)
        is_verified = current is not None and current.number == verification
        return None if is_verified else Refusal(ErrorCode.invalid_txn_state, with_log_start=True)

    def _check_begin(self, producer: Producer, header: BatchHeader) -> Refusal | None:
        """Of several batches that were verified together, the first in sequence must be appended first."""
        current = self.verifications.find(header.producer_id)
        if current is None:
            return None
        must_begin = current.raises_epoch and not producer.batches and header.base_sequence != 0
        if must_begin or header.base_sequence > current.lowest_sequence:
            return Refusal(ErrorCode.out_of_order_sequence_number, with_log_start=True)
        return None

    def appended(self, header: BatchHeader) -> None:
        """Record a data batch that is in the log."""
        if header.producer_id == NO_PRODUCER:
            return
        producer = self._producer(header.producer_id)
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.batches.append(
            RecentBatch(
                header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
            )
        )
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional:
            self.verifications.batch_appended(header.producer_id)
            if producer.transaction_start is None:
                producer.transaction_start = header.base_offset
                self._open[header.producer_id] = header.base_offset

    def ended(self, header: BatchHeader, *, committed: bool, coordinator_epoch: int) -> AbortedTransaction | None:
        """Record a transaction marker; an abort returns the row that readers need to skip its records."""
        producer = self._producer(header.producer_id)
        if header.producer_epoch > producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_timestamp = header.max_timestamp
        producer.coordinator_epoch = coordinator_epoch
        self.verifications.marker_appended(header.producer_id, header.producer_epoch)
        first = producer.transaction_start
        producer.transaction_start = None
        self._open.pop(header.producer_id, None)
        if first is not None:
            self._ended.append((first, header.last_offset))
        if committed or first is None:
            return None
        stable = self.first_open_offset()
        return AbortedTransaction(
            header.producer_id, first, header.last_offset, header.last_offset + 1 if stable is None else stable
        )

    def _producer(self, producer_id: int) -> Producer:
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(producer_id)
        return producer

    def first_open_offset(self) -> int | None:
        """First offset of the oldest open transaction."""
        return next(iter(self._open.values()), None)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """First offset of the oldest transaction that is open, or whose marker is not below the high watermark."""
        while self._ended and self._ended[0][1] < high_watermark:
            self._ended.popleft()
        first_open = self.first_open_offset()
        unstable = min((first for first, _ in self._ended), default=None)
        return first_open if unstable is None else unstable if first_open is None else min(first_open, unstable)

    def opened_before(self, offset: int) -> list[Producer]:
        """Ids of producers whose open transactions begin below that offset."""
        return [producer for producer in self.active() if self._open.get(producer.producer_id, offset) < offset]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers without an open transaction whose last write is older than that."""
        gone = [
            producer.producer_id
            for producer in self.producers.values()
            if producer.transaction_start is None and producer.last_timestamp < now_ms - expiration_ms
        ]
        for producer_id in gone:
            del self.producers[producer_id]
        self.verifications.expire(now_ms - expiration_ms)

    def active(self) -> Iterator[Producer]:
        """Producers by id, for DescribeProducers and snapshots."""
        return iter(sorted(self.producers.values(), key=lambda producer: producer.producer_id))

    def restore(self, producers: Iterable[Producer]) -> None:
        """Start from a snapshot."""
        self.producers = {producer.producer_id: producer for producer in producers}
        self._open = dict(
            sorted(
                (
                    (producer.producer_id, producer.transaction_start)
                    for producer in self.producers.values()
                    if producer.transaction_start is not None
                ),
                key=lambda opened: opened[1],
            )
        )


def _check_epoch(producer: Producer, header: BatchHeader) -> Refusal | None:
    if header.producer_epoch < producer.epoch:
        return Refusal(ErrorCode.invalid_producer_epoch, with_log_start=True)
    return None


def _check_sequence(producer: Producer, header: BatchHeader) -> Refusal | None:
    if producer.epoch == NO_EPOCH:
        return None  # its records may have been deleted
    if header.producer_epoch != producer.epoch:
        begins = header.base_sequence == 0
    else:
        # After a marker that raised its epoch a producer has no batches; it must begin with 0.
        begins = header.base_sequence == next_sequence(producer.last_sequence, 1)
    return None if begins else Refusal(ErrorCode.out_of_order_sequence_number, with_log_start=True)


def _check_kind(producer: Producer, header: BatchHeader) -> Refusal | None:
    """A producer with an open transaction sends nothing outside of it."""
    if producer.transaction_start is not None and not header.is_transactional:
        return Refusal(ErrorCode.invalid_txn_state, with_log_start=True)
    return None
