"""Which records of a compacted log survive: the newest of every key, and a tombstone for delete.retention.ms.

A tombstone's time starts at its first cleaning: its batch then gets a delete horizon, written in the place of its base timestamp. Offsets
never change, so a cleaned log has gaps. A batch that loses all its records is retained, empty, while it is the newest of its producer: its
sequence number is still needed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from isthmus_model.clocks import WallMs
from isthmus_wire.records import DELETE_HORIZON_BIT, BatchHeader, KeptRecord, rebuild_batch


class CleaningRules(NamedTuple):
    """The topic's settings, and the current time."""

    delete_retention_ms: int
    now_ms: WallMs


class Cleaned(NamedTuple):
    """The result of cleaning a batch: its bytes, None if it was removed, and the number of its records."""

    batch: bytes | None
    records: int


class NewestOffsets:
    """The newest offset of every key in the part of the log that is being cleaned. Bounded: what does not fit waits for another round."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def is_full(self) -> bool:
        """Whether another batch may not fit."""
        return len(self._offsets) >= self._keys_max

    def learn(self, key: bytes, offset: int) -> None:
        """Add a record of the dirty part."""
        self._offsets[key] = offset

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether there is a newer record of the key."""
        return self._offsets.get(key, -1) > offset


def clean_batch(
    header: BatchHeader,
    records: Iterable[KeptRecord],
    newest: NewestOffsets,
    rules: CleaningRules,
    original: bytes,
    *,
    last_of_producer: bool,
) -> Cleaned:
    """Filter one data batch."""
    horizon = header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None
    everything = list(records)
    kept = []
    has_tombstone = False
    for record in everything:
        if record.key is None or newest.is_superseded(record.key, record.offset):
            continue
        if record.value is None:
            if horizon is not None and horizon < rules.now_ms:
                continue
            has_tombstone = True
        kept.append(record)
    needs_horizon = has_tombstone and horizon is None
    if len(kept) == len(everything) and not needs_horizon:
        return Cleaned(original, len(kept))
    if not kept and not last_of_producer:
        return Cleaned(None, 0)
    if needs_horizon:
        horizon = rules.now_ms + rules.delete_retention_ms
    return Cleaned(rebuild_batch(header, kept, horizon), len(kept))
