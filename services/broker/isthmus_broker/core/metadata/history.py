"""Images by offset of the metadata log: the committed one, and a later one that may be reverted.

The active controller decides over `latest`, which includes its uncommitted records; subscribers of the metadata receive committed images
only. A controller that loses its leadership reverts. A standby uses the same class: it appends the records that it fetches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isthmus_broker.core.metadata.delta import Changes, changes_between
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage
from isthmus_broker.core.metadata.replay import replay_all
from isthmus_broker.core.metadata.schema import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    NoOpRecord,
)

NOTHING_YET = -1


@dataclass(frozen=True, slots=True)
class _State:
    """The metadata after an offset; records of an open transaction are kept beside the image."""

    offset: int
    image: ClusterImage
    transaction: tuple[MetadataRecord, ...] | None = None

    def after(self, records: Iterable[MetadataRecord], offset: int) -> _State:
        image, ready, open_records = self.image, list[MetadataRecord](), self.transaction
        for record in records:
            match record:
                case BeginTransactionRecord():
                    assert open_records is None, "a metadata transaction begins inside another"
                    open_records = ()
                case EndTransactionRecord():
                    assert open_records is not None, "a metadata transaction ends that never began"
                    ready += open_records
                    open_records = None
                case NoOpRecord():
                    pass  # the image stays the same object: subscribers need not compare anything
                case AbortTransactionRecord():
                    assert open_records is not None, "a metadata transaction is aborted that never began"
                    open_records = None
                case _ if open_records is None:
                    ready.append(record)
                case _:
                    open_records = (*open_records, record)
        return _State(offset, replay_all(image, ready) if ready else image, open_records)


@dataclass(frozen=True, slots=True)
class Published:
    """A committed image, with the changes since the one published before."""

    offset: int
    image: ClusterImage
    changes: Changes


class ImageHistory:
    def __init__(self) -> None:
        self._committed = _State(NOTHING_YET, EMPTY_IMAGE)
        self._uncommitted: deque[_State] = deque()

    @property
    def committed(self) -> ClusterImage:
        return self._committed.image

    @property
    def committed_offset(self) -> int:
        return self._committed.offset

    @property
    def latest(self) -> ClusterImage:
        return self._last.image

    @property
    def latest_offset(self) -> int:
        return self._last.offset

    @property
    def in_transaction(self) -> bool:
        """Whether a new leader finds an open transaction, which it must abort."""
        return self._last.transaction is not None

    @property
    def _last(self) -> _State:
        return self._uncommitted[-1] if self._uncommitted else self._committed

    def append(self, records: Sequence[MetadataRecord], last_offset: int) -> None:
        """Append records of the log up to `last_offset`, committed or not."""
        assert last_offset > self.latest_offset, f"offset {last_offset} follows {self.latest_offset}"
        self._uncommitted.append(self._last.after(records, last_offset))

    def commit(self, offset: int) -> Published | None:
        """Commit everything up to `offset`; None if that adds nothing."""
        before = self._committed
        while self._uncommitted and self._uncommitted[0].offset <= offset:
            self._committed = self._uncommitted.popleft()
        if self._committed is before:
            return None
        return self._published(before)

    def revert(self) -> None:
        """Revert uncommitted records."""
        self._uncommitted.clear()

    def load_snapshot(self, records: Iterable[MetadataRecord], last_offset: int) -> Published:
        """Replace the image by a snapshot; subscribers receive the differences."""
        before = self._committed
        self._committed = _State(last_offset, replay_all(EMPTY_IMAGE, records))
        self._uncommitted.clear()
        return self._published(before)

    def _published(self, before: _State) -> Published:
        changes = changes_between(before.image, self._committed.image)
        return Published(self._committed.offset, self._committed.image, changes)
