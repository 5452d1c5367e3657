"""A model of a log: its offsets and the epoch of each record."""

from collections.abc import Sequence

from isthmus_broker.core.log.epochs import EpochHistory


class ModelLog:
    """A log with one epoch for each record; the decisions do not depend on batches."""

    def __init__(self, epochs: Sequence[int] = (), *, start: int = 0, high_watermark: int = 0) -> None:
        self.records: list[int] = list(epochs)
        self.log_start_offset = start
        self.high_watermark = high_watermark
        self.epochs = EpochHistory()
        for offset, epoch in enumerate(epochs, start):
            self.epochs.assign(epoch, offset)

    @property
    def end_offset(self) -> int:
        return self.log_start_offset + len(self.records)

    def append(self, *epochs: int) -> None:
        for epoch in epochs:
            self.epochs.assign(epoch, self.end_offset)
            self.records.append(epoch)

    def truncate(self, end_offset: int) -> None:
        del self.records[max(end_offset - self.log_start_offset, 0) :]
        self.epochs.truncate_from_end(end_offset)
