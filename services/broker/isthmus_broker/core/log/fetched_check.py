"""Which of a leader's batches a follower appends."""

from isthmus_wire.errors import CorruptBatch
from isthmus_wire.records import BatchHeader, batches, checksum_matches


def begin_of(data: memoryview, end_offset: int) -> int:
    """The base offset of the first batch if it contains `end_offset`, else `end_offset`.

    DeleteRecords can move the leader's log start offset inside a batch. A new replica fetches from there, and receives the whole batch.
    """
    _, header = next(batches(data), (0, None))
    return (
        header.base_offset
        if header is not None and header.base_offset < end_offset <= header.last_offset
        else end_offset
    )


def check_fetched(data: memoryview, end_offset: int, leader_epoch: int) -> list[tuple[int, BatchHeader]]:
    """Position and header of the batches to append, in order; raises CorruptBatch if any of them is damaged.

    A batch of a later epoch ends them: the leader lost its leadership while it responded, and its log may have been truncated since.
    """
    checked: list[tuple[int, BatchHeader]] = []
    expected = end_offset
    for position, header in batches(data):
        if header.leader_epoch > leader_epoch:
            break
        if header.base_offset < expected or header.last_offset_delta < 0:
            raise CorruptBatch(f"batch at {header.base_offset}, expected {expected} or above")
        if not checksum_matches(data, header, position):
            raise CorruptBatch(f"batch at {header.base_offset} has a wrong checksum")
        expected = header.last_offset + 1
        checked.append((position, header))
    return checked
