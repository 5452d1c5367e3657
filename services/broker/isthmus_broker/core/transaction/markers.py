"""Decided transactions, until every partition has the marker."""

from collections import deque
from dataclasses import dataclass

from isthmus_wire.markers import Marker

from isthmus_broker.core.transaction.records import TopicPartition, Transaction
from isthmus_broker.core.transaction.requests import WriteMarkers
from isthmus_broker.core.transaction.states import State


@dataclass(slots=True)
class _Decided:
    """A decided transaction, and the partitions whose markers are outstanding."""

    transaction: Transaction
    outstanding: set[TopicPartition]


class OutstandingMarkers:
    """By transactional id. A decision is released for its markers once its record is committed."""

    def __init__(self) -> None:
        self._decided: dict[str, _Decided] = {}
        self._uncommitted: deque[tuple[int, str, Transaction]] = deque()

    def __len__(self) -> int:
        return len(self._decided)

    def replay(self, transactional_id: str, transaction: Transaction | None, offset: int) -> None:
        """The id's record, or its tombstone, is in the log at `offset`."""
        if transaction is not None and transaction.state.is_prepared:
            self._decided[transactional_id] = _Decided(transaction, set(transaction.partitions))
            self._uncommitted.append((offset, transactional_id, transaction))
        else:
            self._decided.pop(transactional_id, None)

    def release(self, high_watermark: int) -> list[tuple[str, Transaction]]:
        """The decisions that were committed since the last call, and whose markers must be written."""
        released = []
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, transactional_id, transaction = self._uncommitted.popleft()
            decided = self._decided.get(transactional_id)
            if decided is not None and decided.transaction is transaction:
                released.append((transactional_id, transaction))
        return released

    def written(self, transactional_id: str, transaction: Transaction, partitions: frozenset[TopicPartition]) -> bool:
        """These partitions have the marker; returns whether all have it now."""
        decided = self._decided.get(transactional_id)
        if decided is None or decided.transaction is not transaction:
            return False
        decided.outstanding -= partitions
        return not decided.outstanding

    def outstanding(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """The partitions without the marker; None if the id has no decided transaction."""
        decided = self._decided.get(transactional_id)
        return None if decided is None else frozenset(decided.outstanding)


def markers_of(transactional_id: str, transaction: Transaction, coordinator_epoch: int) -> WriteMarkers:
    """The markers of a decided transaction."""
    commits = transaction.state is State.PREPARE_COMMIT
    marker = Marker(transaction.producer, commits, coordinator_epoch, transaction.version)
    return WriteMarkers(transactional_id, marker, transaction.partitions)
