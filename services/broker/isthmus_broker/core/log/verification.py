"""Verification of transactions at the leader of a partition (KIP-890).

Before the first batch of a transaction is appended, the leader checks with the transaction coordinator that the partition is part of the
transaction. Meanwhile the transaction may end, and its marker be appended: the batch would then open a transaction that nothing ends. So
each check gets a number, which the batch repeats; a marker removes the number, and a batch without it is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

NOT_VERIFIED: Final = 0
"""The number of no verification."""
NOT_REQUIRED: Final = -1
"""The number that is always accepted, while transaction.partition.verification.enable is off."""


@dataclass(slots=True)
class Verification:
    """The check under way, or passed, for a producer's next transactional batch."""

    number: int
    epoch: int
    lowest_sequence: int
    """Of the batches that wait for the check: one with a higher sequence must not be appended first."""
    raises_epoch: bool
    """Whether the producer gets a new epoch for each transaction, and so begins with sequence 0."""
    begun_ms: int


class Verifications:
    """By producer id."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}
        self._numbers: Iterator[int] = count(1)

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, raises_epoch: bool) -> int:
        """Begin to check a producer's transaction, or join the check under way; returns its number."""
        current = self._by_producer.get(producer_id)
        if current is None:
            current = Verification(next(self._numbers), epoch, sequence, raises_epoch, now_ms)
            self._by_producer[producer_id] = current
        elif epoch > current.epoch:
            current.epoch, current.lowest_sequence, current.raises_epoch = epoch, sequence, raises_epoch
        elif epoch == current.epoch:
            current.lowest_sequence = min(current.lowest_sequence, sequence)
        return current.number

    def find(self, producer_id: int) -> Verification | None:
        """The check of a producer's transaction, if there is one."""
        return self._by_producer.get(producer_id)

    def batch_appended(self, producer_id: int) -> None:
        """The transaction is open now, and needs no check."""
        self._by_producer.pop(producer_id, None)

    def marker_appended(self, producer_id: int, epoch: int) -> None:
        """Forget the check of the transaction that ended. A marker with a raised epoch does not end the transaction of that epoch."""
        current = self._by_producer.get(producer_id)
        if current is not None and not (current.raises_epoch and current.epoch == epoch):
            del self._by_producer[producer_id]

    def expire(self, begun_before_ms: int) -> None:
        """Forget the checks that led to no append."""
        for producer_id in [p for p, current in self._by_producer.items() if current.begun_ms < begun_before_ms]:
            del self._by_producer[producer_id]
