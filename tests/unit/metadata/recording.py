"""The recorded metadata log and snapshot of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

from isthmus_wire.records import batches, iterate_records

_FOLDER = Path(__file__).parent / "recordings"
LOG = _FOLDER / "00000000000000000000.log"
(SNAPSHOT,) = _FOLDER.glob("*.checkpoint")
# A snapshot is named for the offset after the last that it covers.
SNAPSHOT_END = int(SNAPSHOT.name.partition("-")[0])


def recorded_values(file: Path) -> list[tuple[int, bytes]]:
    """Offsets and values of the records of a log or a snapshot, without those of the quorum itself."""
    data = file.read_bytes()
    return [
        (record.offset, record.value)
        for position, header in batches(data)
        if not header.is_control
        for record in iterate_records(data, position)
        if record.value is not None
    ]
