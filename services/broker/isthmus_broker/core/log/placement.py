"""Assigns a batch its first offset and leader epoch, which the checksum does not cover."""

from isthmus_wire.records import BatchHeader, set_base_offset

Batch = tuple[bytearray | memoryview, BatchHeader]


def place(batch: bytearray | memoryview, header: BatchHeader, base_offset: int, leader_epoch: int) -> BatchHeader:
    """Write both into the batch; returns the resulting header."""
    set_base_offset(batch, base_offset, leader_epoch)
    return BatchHeader(base_offset, header[1], leader_epoch, *header[3:])
