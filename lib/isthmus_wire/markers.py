"""Transaction markers: control records that end a producer's transaction in one partition."""

import struct
from typing import Final, NamedTuple

from isthmus_wire.records import BatchHeader, KeptRecord, Record, build_control_batch

_ABORT: Final = 0
_COMMIT: Final = 1
_KIND: Final = struct.Struct(">hh")  # version, kind
_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch


class ProducerId(NamedTuple):
    """A producer id and its epoch."""

    id: int
    epoch: int


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer: ProducerId
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0
    """The version whose rules the marker follows; the log does not have it."""


def build_marker(marker: Marker, timestamp: int) -> bytes:
    """The control batch with this marker."""
    return build_control_batch(
        _COMMIT if marker.committed else _ABORT,
        _VALUE.pack(0, marker.coordinator_epoch),
        timestamp=timestamp,
        producer_id=marker.producer.id,
        producer_epoch=marker.producer.epoch,
    )


def marker_of(header: BatchHeader, record: Record | KeptRecord) -> Marker | None:
    """The marker in a control batch's record; None for a control record of another kind."""
    key, value = record.key or b"", record.value or b""
    if len(key) < _KIND.size or len(value) < _VALUE.size:
        return None
    _, kind = _KIND.unpack_from(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return Marker(ProducerId(header.producer_id, header.producer_epoch), kind == _COMMIT, coordinator_epoch)
