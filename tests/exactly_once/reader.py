"""Reading what consumers of committed records get: along with the applications, and in the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.histories import Partition
from tests.system.ledger import CLIENT_SETTINGS, WAIT_SECONDS

_SETTINGS: Final[dict[str, Any]] = {
    **CLIENT_SETTINGS,
    "group.id": "exactly-once-reader",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
}


class Record(NamedTuple):
    """A record that a consumer got."""

    partition: Partition
    offset: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Contents:
    """The committed records of a partition, from its start to its end."""

    partition: Partition
    start: int
    end: int
    records: Sequence[Record]


class Reader:
    """Follows topics in a thread from their start, and keeps what it gets."""

    def __init__(self, bootstrap: str, partitions: Sequence[Partition]) -> None:
        self.records: list[Record] = []
        self.errors: list[str] = []
        self._consumer = Consumer({**_SETTINGS, "bootstrap.servers": bootstrap})
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in partitions])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            records, _, errors = _consume(self._consumer, 0.05)
            self.records += records
            self.errors += errors

    def close(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._consumer.close()


def read_all(bootstrap: str, partitions: Sequence[Partition]) -> list[Contents]:
    """Every partition to its end, which no open transaction may hold back."""
    records: dict[Partition, list[Record]] = {partition: [] for partition in partitions}
    consumer = Consumer({**_SETTINGS, "bootstrap.servers": bootstrap})
    try:
        marks = {
            place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=WAIT_SECONDS) for place in partitions
        }
        consumer.assign([TopicPartition(*place, marks[place][0]) for place in partitions])
        left = set(partitions)
        deadline = time.monotonic() + WAIT_SECONDS
        while left:
            assert time.monotonic() < deadline, f"partitions {sorted(left)} could not be read to {marks}"
            found, ends, errors = _consume(consumer, 0.2)
            assert not errors, errors[:3]
            for record in found:
                records[record.partition].append(record)
            left -= {place for place, offset in ends.items() if offset >= marks[place][1]}
    finally:
        consumer.close()
    return [Contents(place, *marks[place], records[place]) for place in partitions]


def end_offsets(bootstrap: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """The high watermarks."""
    consumer = Consumer({**_SETTINGS, "bootstrap.servers": bootstrap})
    try:
        return {
            place: consumer.get_watermark_offsets(TopicPartition(*place), timeout=WAIT_SECONDS)[1]
            for place in partitions
        }
    finally:
        consumer.close()


def committed_offsets(bootstrap: str, group: str, partitions: Sequence[Partition]) -> dict[Partition, int] | None:
    """The offsets of a group; None while its coordinator does not respond, or while one is part of an open transaction."""
    consumer = Consumer({**_SETTINGS, "bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(*place) for place in partitions], timeout=10)
    except KafkaException:
        return None
    finally:
        consumer.close()
    if any(each.error is not None for each in found):
        return None
    return {(each.topic, each.partition): each.offset for each in found}


def _consume(consumer: Consumer, seconds: float) -> tuple[list[Record], dict[Partition, int], list[str]]:
    """Records, the ends of partitions, and errors."""
    records, ends, errors = [], {}, []
    for message in consumer.consume(1000, seconds):
        error, topic, partition = message.error(), message.topic(), message.partition()
        offset, key, value = message.offset(), message.key(), message.value()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            errors.append(str(error))
            continue
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if error is not None:
            ends[topic, partition] = offset
            continue
        assert not isinstance(key, str)
        assert value is not None
        records.append(Record((topic, partition), offset, key or b"", value))
    return records, ends, errors
