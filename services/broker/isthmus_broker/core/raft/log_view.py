"""The core's view of its log: bounds, epoch boundaries, and how much is durable. The entries themselves are in storage."""

from bisect import bisect_right
from collections import deque

from isthmus_broker.core.raft.types import EpochEnd, Recovered, SnapshotId


class LogView:
    """Offsets and epochs of the log, ahead of the disk by the writes in flight.

    Invariants: start <= durable_end <= end; epochs and their first offsets ascend; no boundary lies outside [start, end).
    """

    def __init__(self, recovered: Recovered) -> None:
        self.start = recovered.log_start
        self.end = recovered.log_end
        self.durable_end = recovered.log_end
        self.snapshots = list(recovered.snapshots)
        self._epochs = list(recovered.epochs)
        self._unconfirmed: deque[tuple[int, int]] = deque()  # (mark, end of the log that becomes durable with it)
        assert self.start <= self.end

    def unfinished_install(self) -> SnapshotId | None:
        """The snapshot that was received completely before a crash, if the log it was to replace still exists."""
        latest = self.latest_snapshot()
        if latest is None or latest.end_offset <= self.start:
            return None
        follows = latest.end_offset <= self.end and self.epoch_before(latest.end_offset) == latest.epoch
        return None if follows else latest

    @property
    def last_epoch(self) -> int:
        """Epoch of the last entry, or of the snapshot an empty log starts from."""
        if self._epochs:
            return self._epochs[-1][0]
        return self._epoch_before_start()

    def append(self, epoch: int, base_offset: int, last_offset: int, mark: int) -> None:
        assert base_offset == self.end, f"entry at {base_offset} does not follow a log that ends at {self.end}"
        assert last_offset >= base_offset
        assert epoch >= self.last_epoch, f"epoch {epoch} after epoch {self.last_epoch}"
        if not self._epochs or self._epochs[-1][0] < epoch:
            self._epochs.append((epoch, base_offset))
        self.end = last_offset + 1
        self._unconfirmed.append((mark, self.end))

    def truncate_to(self, offset: int) -> None:
        assert self.start <= offset < self.end
        while self._epochs and self._epochs[-1][1] >= offset:
            self._epochs.pop()
        self.end = offset
        self.durable_end = min(self.durable_end, offset)
        self._unconfirmed = deque((mark, min(end, offset)) for mark, end in self._unconfirmed)

    def persisted(self, mark: int) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= mark:
            self.durable_end = self._unconfirmed.popleft()[1]

    def install(self, snapshot: SnapshotId, mark: int) -> None:
        """Start over from a snapshot; the log is empty and ends where the snapshot does."""
        self.snapshots = [snapshot]
        self.start = self.end = snapshot.end_offset
        self._epochs = []
        self.durable_end = self.end  # the snapshot itself was durable before it was received
        self._unconfirmed = deque([(mark, self.end)])

    def add_snapshot(self, snapshot: SnapshotId) -> None:
        assert not self.snapshots or self.snapshots[-1] < snapshot
        assert snapshot.end_offset <= self.durable_end
        self.snapshots.append(snapshot)

    def drop_before(self, snapshot: SnapshotId) -> None:
        assert snapshot in self.snapshots
        assert self.start <= snapshot.end_offset <= self.durable_end
        self.snapshots = [each for each in self.snapshots if each >= snapshot]
        self.start = snapshot.end_offset
        index = bisect_right([first for _, first in self._epochs], self.start) - 1
        if index >= 0:
            kept = self._epochs[index:]
            self._epochs = [(kept[0][0], self.start), *kept[1:]] if self.start < self.end else []

    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def epoch_at(self, offset: int) -> int:
        """Epoch of the entry that holds `offset`."""
        assert self.start <= offset < self.end
        index = bisect_right([first for _, first in self._epochs], offset) - 1
        return self._epochs[index][0]

    def epoch_before(self, offset: int) -> int:
        """Epoch of the last entry below `offset`."""
        return self.epoch_at(offset - 1) if offset > self.start else self._epoch_before_start()

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch of this log that is not above `epoch`, and its end offset."""
        index = bisect_right([each for each, _ in self._epochs], epoch)
        if index == 0:
            return EpochEnd(self._epoch_before_start(), self.start)
        end = self._epochs[index][1] if index < len(self._epochs) else self.end
        return EpochEnd(self._epochs[index - 1][0], end)

    def divergence(self, offset: int, epoch: int) -> EpochEnd | None:
        """None if a log that ends at `offset` with an entry of `epoch` is a prefix of this one; otherwise where the two may meet."""
        end = self.end_of_epoch(epoch)
        return None if end.epoch == epoch and offset <= end.end_offset else end

    def is_below_start(self, offset: int, epoch: int) -> bool:
        """Whether such a log can no longer be compared with this one, so that the follower needs a snapshot."""
        if not self.snapshots:
            return False
        before = self._epoch_before_start()
        return offset < self.start or epoch < before or (offset == self.start > 0 and epoch != before)

    def _epoch_before_start(self) -> int:
        return next((each.epoch for each in self.snapshots if each.end_offset == self.start), 0)
