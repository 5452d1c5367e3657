"""Offsets that were committed in transactions whose markers are not in the log yet.

A pending offset takes effect with the commit marker of its producer, unless the log has a newer offset of the group for that partition:
the newer one counts, whichever takes effect first. A partition with a pending offset is unstable, until the marker.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from isthmus_broker.core.group.records import OffsetCommitKey, OffsetCommitValue


@dataclass(slots=True)
class _Pending:
    """The newest offset of a partition in one transaction, and where its record is in the log."""

    value: OffsetCommitValue
    offset: int
    is_superseded: bool = False


class PendingOffsets:
    """By producer id, and by group."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetCommitKey, _Pending]] = {}
        self._producers: dict[str, dict[tuple[str, int], set[int]]] = {}
        """The producers with a pending offset, by group, topic and partition."""

    def add(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue, offset: int) -> None:
        """Replay a record of an open transaction."""
        self._by_producer.setdefault(producer_id, {})[key] = _Pending(value, offset)
        self._producers.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer_id)

    def supersede(self, key: OffsetCommitKey, offset: int) -> None:
        """An offset that the log has at `offset` takes effect: older ones no longer do."""
        for producer_id in self._producers_of(key):
            pending = self._by_producer[producer_id][key]
            pending.is_superseded |= pending.offset < offset

    def remove(self, key: OffsetCommitKey) -> None:
        """The partition's offset is deleted: pending ones of all producers are forgotten."""
        for producer_id in tuple(self._producers_of(key)):
            self._drop(producer_id, key)

    def end(self, producer_id: int) -> list[tuple[OffsetCommitKey, OffsetCommitValue, int]]:
        """The producer's transaction has ended: its offsets that would take effect now, with their places in the log."""
        ended = self._by_producer.get(producer_id, {})
        effective = [(key, one.value, one.offset) for key, one in ended.items() if not one.is_superseded]
        for key in tuple(ended):
            self._drop(producer_id, key)
        return effective

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction may change the group's offset of the partition."""
        return (topic, partition) in self._producers.get(group_id, {})

    def partitions(self, group_id: str) -> list[tuple[str, int]]:
        """The partitions with pending offsets of the group."""
        return sorted(self._producers.get(group_id, {}))

    def groups(self) -> Iterator[str]:
        """The groups with pending offsets."""
        return iter(self._producers)

    def _producers_of(self, key: OffsetCommitKey) -> set[int]:
        return self._producers.get(key.group, {}).get((key.topic, key.partition), set())

    def _drop(self, producer_id: int, key: OffsetCommitKey) -> None:
        of_producer = self._by_producer[producer_id]
        del of_producer[key]
        if not of_producer:
            del self._by_producer[producer_id]
        of_group, place = self._producers[key.group], (key.topic, key.partition)
        of_group[place].discard(producer_id)
        if not of_group[place]:
            del of_group[place]
        if not of_group:
            del self._producers[key.group]
