"""Validation of batches that a link copies from the source: complete, undamaged, and contiguous with the log.

Nothing else is checked at the destination: sizes, timestamps, compression and producers were validated by the source.
"""

from typing import Final

from isthmus_wire.compression import Bytes
from isthmus_wire.errors import CorruptBatch, ErrorCode
from isthmus_wire.records import (
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    checksum_matches,
    header_at,
    iterate_records,
)

from isthmus_broker.core.log.append_check import MAGIC_AT
from isthmus_broker.core.log.producer_state import Refusal

_TORN: Final = Refusal(ErrorCode.corrupt_message, "The batches end in the middle of one.")


def check_mirrored(data: Bytes, first_offset: int, latest_epoch: int, epoch_max: int) -> Refusal | None:
    """Why the batches are not appended; None if they are. All are appended, or none.

    Offsets may have gaps, as after compaction at the source, and never decrease below `first_offset`; nor do epochs below the log's latest.
    An epoch above `epoch_max`, the partition's own, would let the log run ahead of the partition's elections.
    """
    position, expected, epoch = 0, first_offset, latest_epoch
    while position < len(data):
        if len(data) - position <= MAGIC_AT:
            return _TORN
        if data[position + MAGIC_AT] != MAGIC:
            why = f"A batch of message format {data[position + MAGIC_AT]}; links copy format {MAGIC} alone."
            return Refusal(ErrorCode.unsupported_for_message_format, why)
        if len(data) - position < HEADER_SIZE:
            return _TORN
        header = header_at(data, position)
        if header.length < HEADER_SIZE - LENGTH_END or position + header.size > len(data):
            return _TORN
        refusal = _check_place(header, expected, epoch, epoch_max)
        if refusal is not None:
            return refusal
        if not checksum_matches(data, header, position) or (header.is_control and not _is_readable(data, position)):
            return Refusal(ErrorCode.corrupt_message, f"The batch at {header.base_offset} is damaged.")
        position, expected, epoch = position + header.size, header.last_offset + 1, max(epoch, header.leader_epoch)
    return None


def _is_readable(data: Bytes, position: int) -> bool:
    """Check a transaction marker: every log that appends one decodes it."""
    try:
        list(iterate_records(data, position))
    except CorruptBatch:
        return False
    return True


def _check_place(header: BatchHeader, expected: int, epoch: int, epoch_max: int) -> Refusal | None:
    where = f"The batch of {header.base_offset} to {header.last_offset}"
    if header.base_offset < expected or header.last_offset_delta < 0:
        return Refusal(ErrorCode.invalid_record, f"{where} comes where {expected} is next.")
    if header.leader_epoch > epoch_max:
        why = f"{where} has leader epoch {header.leader_epoch}, above the partition's {epoch_max}."
        return Refusal(ErrorCode.fenced_leader_epoch, why)
    if header.leader_epoch < epoch:
        return Refusal(ErrorCode.invalid_record, f"{where} has leader epoch {header.leader_epoch} after {epoch}.")
    return None
