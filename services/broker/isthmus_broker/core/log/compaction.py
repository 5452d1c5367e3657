"""Compaction of a log: which records survive a cleaning round.

A record with a key survives until a newer record of the key is cleaned, a tombstone for delete.retention.ms longer. Records of aborted
transactions count for nothing and are removed. A transaction marker survives the last batch of its transaction by delete.retention.ms, so
that a slow reader of the batches still finds it. This time starts at the first cleaning: the batch then gets a delete horizon, written in
the place of its base timestamp (KIP-534).

Offsets never change, so a cleaned log has gaps. Two kinds of batches are retained without records: the last one of the round, so that
followers reach the end of the cleaned part, and the newest one of a producer, whose sequence number is still needed. It is retained even
if the producer has written more since: what is above the cleaned part may still be lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from isthmus_model.clocks import WallMs
from isthmus_wire.errors import CorruptBatch
from isthmus_wire.markers import marker_of
from isthmus_wire.records import (
    DELETE_HORIZON_BIT,
    BatchHeader,
    KeptRecord,
    checksum_matches,
    rebuild_batch,
    records_to_keep,
)

from isthmus_broker.core.log.producer_state import AbortedTransaction, Producer


class CleaningRules(NamedTuple):
    """The topic's settings, and the current time."""

    delete_retention_ms: int
    now_ms: WallMs


KEY_OVERHEAD: Final = 128
"""Bytes of memory for a key and its offset, apart from the key itself."""


class NewestOffsets:
    """The newest offset of every key in the dirty part of a log.

    Bounded by `bytes_max` of memory, except that the first batch always fits. The part of the log that did not fit is not learnt, and must
    not be cleaned in this round.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._offsets: dict[bytes, int] = {}

    def is_full(self) -> bool:
        """Whether another batch may not fit."""
        return self._bytes >= self._bytes_max

    def learn(self, batch: bytes, header: BatchHeader, from_offset: int) -> None:
        """Add a batch's records from `from_offset` on; raises CorruptBatch."""
        for record in _checked_records(batch, header):
            if record.key is not None and record.offset >= from_offset:
                if record.key not in self._offsets:
                    self._bytes += KEY_OVERHEAD + len(record.key)
                self._offsets[record.key] = record.offset

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether there is a newer record of the key."""
        return self._offsets.get(key, -1) > offset


@dataclass(slots=True)
class _Aborted:
    """An aborted transaction, and whether the log still has a batch of it."""

    row: AbortedTransaction
    has_batch: bool = False


class Transactions:
    """The transactions of the batches that were passed, which must be all batches from a position on, in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` are the rows of the log's transaction indexes."""
        self._upcoming = sorted(aborted, key=lambda row: row.first_offset, reverse=True)
        self._aborted: dict[int, _Aborted] = {}  # by producer id
        self._committed: set[int] = set()  # producers with a batch of a transaction that was not aborted

    def pass_batch(self, header: BatchHeader) -> bool:
        """Pass a batch of data; returns whether it belongs to an aborted transaction."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and header.base_offset <= aborted.row.last_offset:
            aborted.has_batch = True
            return True
        self._committed.add(header.producer_id)
        return False

    def pass_marker(self, header: BatchHeader, *, committed: bool) -> tuple[bool, AbortedTransaction | None]:
        """Pass a transaction marker.

        Returns whether the log has no batch of the transaction any more, and the row of the transaction index that is still needed.
        """
        self._open_up_to(header.last_offset)
        if committed:
            is_empty = header.producer_id not in self._committed
            self._committed.discard(header.producer_id)
            return is_empty, None
        aborted = self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.has_batch:
            return True, None
        return False, aborted.row

    def _open_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            row = self._upcoming.pop()
            self._aborted[row.producer_id] = _Aborted(row)


def learn(
    newest: NewestOffsets, transactions: Transactions, batch: bytes, header: BatchHeader, from_offset: int
) -> None:
    """Learn the next batch of the dirty part, unless its transaction was aborted; raises CorruptBatch."""
    if not header.is_control:
        if not transactions.pass_batch(header):
            newest.learn(batch, header, from_offset)
        return
    for record in _checked_records(batch, header):
        marker = marker_of(header, record)
        if marker is not None:
            transactions.pass_marker(header, committed=marker.committed)


class ProducersAt(NamedTuple):
    """The producers at an offset within the cleaned part. Of the batches from there on, any may be the newest of its producer."""

    offset: int
    producers: Mapping[int, Producer]

    def may_have_last(self, header: BatchHeader) -> bool:
        """Whether the batch may hold the last sequence number of its producer in the cleaned part."""
        return header.base_offset >= self.offset or is_last_of(self.producers.get(header.producer_id), header)


UNKNOWN_PRODUCERS: Final = ProducersAt(0, {})
"""Without a snapshot, any batch may be the last."""


class CleaningRound:
    """One pass over a log from its first batch, after its dirty part was learnt up to `end_offset`."""

    def __init__(
        self,
        newest: NewestOffsets,
        transactions: Transactions,
        rules: CleaningRules,
        end_offset: int,
        producers: ProducersAt,
    ) -> None:
        self._newest = newest
        self._transactions = transactions
        self._rules = rules
        self._end_offset = end_offset
        self._producers = producers
        self.aborted: list[AbortedTransaction] = []
        """Rows of the transaction index that are still needed, in the order of their markers; the caller removes them."""

    def clean(self, batch: bytes, header: BatchHeader, producer: Producer | None) -> bytes | None:
        """Clean the next batch; returns None to remove it. `producer` is the current state of the batch's producer id.

        Raises CorruptBatch.
        """
        is_last = is_last_of(producer, header) or (producer is not None and self._producers.may_have_last(header))
        keep_empty = is_last or header.last_offset + 1 == self._end_offset
        if header.is_control:
            return self._clean_marker(batch, header, keep_empty=keep_empty)
        is_aborted = self._transactions.pass_batch(header)
        if header.base_offset >= self._end_offset:
            return batch
        records = list(_checked_records(batch, header))
        kept = [] if is_aborted else [record for record in records if self._is_kept(record, header)]
        if not kept:
            return rebuild_batch(header, (), None) if keep_empty else None
        horizon = delete_horizon(header)
        needs_horizon = horizon is None and any(record.value is None for record in kept)
        if len(kept) == len(records) and not needs_horizon:
            return batch
        return rebuild_batch(header, kept, self._new_horizon() if needs_horizon else horizon)

    def _is_kept(self, record: KeptRecord, header: BatchHeader) -> bool:
        if record.key is None or self._newest.is_superseded(record.key, record.offset):
            return False
        return record.value is not None or not self._is_past(delete_horizon(header))

    def _clean_marker(self, batch: bytes, header: BatchHeader, *, keep_empty: bool) -> bytes | None:
        records = list(_checked_records(batch, header))
        marker = marker_of(header, records[0]) if records else None
        if records and marker is None:
            return batch  # a control record of another kind
        is_empty = True
        if marker is not None:
            is_empty, row = self._transactions.pass_marker(header, committed=marker.committed)
            if row is not None:
                self.aborted.append(row)
        if not is_empty or header.base_offset >= self._end_offset:
            return batch
        horizon = delete_horizon(header)
        if not records or self._is_past(horizon):
            return rebuild_batch(header, (), None) if keep_empty else None
        return rebuild_batch(header, records, self._new_horizon()) if horizon is None else batch

    def _is_past(self, horizon: int | None) -> bool:
        return horizon is not None and horizon <= self._rules.now_ms

    def _new_horizon(self) -> int:
        return self._rules.now_ms + self._rules.delete_retention_ms


def delete_horizon(header: BatchHeader) -> int | None:
    """The time from which on the batch's tombstones or its marker may be removed; None before its first cleaning."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def is_last_of(producer: Producer | None, header: BatchHeader) -> bool:
    """Whether the batch holds the last sequence number of its producer, or, if there is none, the marker with its epoch."""
    if producer is None:
        return False
    if producer.batches:
        return producer.batches[-1].last_offset == header.last_offset
    return header.is_control and header.producer_epoch == producer.epoch


def _checked_records(batch: bytes, header: BatchHeader) -> Iterable[KeptRecord]:
    """The records; raises CorruptBatch rather than give damaged bytes a new checksum."""
    if not checksum_matches(batch, header):
        raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong checksum")
    return records_to_keep(batch)
