"""Which batches a reader of committed records skips.

A fetch response lists transactions that were aborted, each with its producer and first offset; the ABORT marker in the log ends it. The
list may begin before the batches and continue beyond them.
"""

from collections.abc import Sequence

from isthmus_wire.compression import Bytes
from isthmus_wire.markers import marker_of
from isthmus_wire.records import BatchHeader, iterate_records


class AbortedTransactions:
    """The aborted transactions of one fetched partition; with an empty list, only control batches are skipped."""

    def __init__(self, listed: Sequence[tuple[int, int]]) -> None:
        """`listed` are producer ids and first offsets, in any order."""
        self._coming = sorted(listed, key=lambda one: one[1], reverse=True)
        self._open: set[int] = set()

    def hides(self, data: Bytes, header: BatchHeader, position: int) -> bool:
        """Whether no record of the batch at `position` is for readers; call it for every batch, in the order of offsets."""
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if header.is_control:
            if header.producer_id in self._open and _is_abort(data, header, position):
                self._open.remove(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def _is_abort(data: Bytes, header: BatchHeader, position: int) -> bool:
    markers = (marker_of(header, record) for record in iterate_records(data, position))
    return any(marker is not None and not marker.committed for marker in markers)
