"""Idempotence and open transactions of one partition, derived from its log.

The last five batches of every producer id are kept: the response to a repeated one has its original offset, and a gap in the sequence is
refused. An unknown producer may begin with any sequence number, because its records may have been deleted. A transaction opens with a
producer's first transactional batch and ends with a marker; the first open one bounds the last stable offset.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from isthmus_wire.errors import ErrorCode
from isthmus_wire.records import NO_PRODUCER, BatchHeader, next_sequence

WINDOW: Final = 5
"""Batches kept for each producer, which bounds a client's requests in flight."""
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1


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
        self._open: dict[int, int] = {}  # producer id -> first offset, in the order of first offsets

    def check(self, header: BatchHeader) -> RecentBatch | Refusal | None:
        """Check whether a client's batch continues its producer's sequence: None if so, the earlier batch if it is a repeat."""
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return self._check_epoch(NO_EPOCH, header)
        if header.producer_epoch == producer.epoch and producer.batches:
            last = producer.batches[-1].last_sequence
            if header.base_sequence == next_sequence(last, 1):
                return None
        repeated = producer.duplicate_of(header)
        if repeated is not None:
            return repeated
        return self._check_epoch(producer.epoch, header) or self._check_sequence(producer, header)

    def _check_epoch(self, current: int, header: BatchHeader) -> Refusal | None:
        if header.producer_epoch < current:
            return Refusal(ErrorCode.invalid_producer_epoch, with_log_start=True)
        return None

    def _check_sequence(self, producer: Producer, header: BatchHeader) -> Refusal | None:
        if header.producer_epoch != producer.epoch:
            begins = header.base_sequence == 0 or producer.epoch == NO_EPOCH
        else:
            # After a marker that raised its epoch a producer has no batches; it must begin with 0.
            begins = header.base_sequence == next_sequence(producer.last_sequence, 1)
        return None if begins else Refusal(ErrorCode.out_of_order_sequence_number, with_log_start=True)

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
        if header.is_transactional and producer.transaction_start is None:
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
        first = producer.transaction_start
        producer.transaction_start = None
        self._open.pop(header.producer_id, None)
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
        return min(self._open.values(), default=None)

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

    def active(self) -> Iterator[Producer]:
        """Producers by id, for DescribeProducers and snapshots."""
        return iter(sorted(self.producers.values(), key=lambda producer: producer.producer_id))

    def restore(self, producers: Iterable[Producer]) -> None:
        """Start from a snapshot."""
        self.producers = {producer.producer_id: producer for producer in producers}
        self._open = {
            producer.producer_id: producer.transaction_start
            for producer in self.producers.values()
            if producer.transaction_start is not None
        }
