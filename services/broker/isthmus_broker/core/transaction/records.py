"""The records of __transaction_state, in Kafka's formats.

A value of version 0 has no tagged fields: it is written while transaction.version is 0. Both versions are read.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from isthmus_wire.errors import DecodeError
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import decode_entity, encode_entity

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.transaction.states import State

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
PLAIN_VERSION: Final = 0
TAGGED_VERSION: Final = 1
_PREFIX: Final = struct.Struct(">h")


class TopicPartition(NamedTuple):
    """A partition that takes part in a transaction."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TransactionKey:
    """The key of a transactional id's record."""

    __flexible__: ClassVar[bool] = False
    prefix: ClassVar[int] = 0
    transactional_id: str = field(metadata={"kafka_type": "string"})

    def body(self) -> bytes:
        """Encode the id."""
        return encode_entity(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id: its producer, and its current or last transaction. It is the value of the id's record."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last transition."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the completion, when the epochs of the current one are exhausted."""
    version: int = 0
    """The transaction.version of the request that made the last transition; markers follow its rules."""
    last_epoch: int = NO_EPOCH
    """The epoch before the last increment, by which a repeated request is recognised. Not recorded: unknown after a load."""
    record_version: int = TAGGED_VERSION

    @property
    def producer(self) -> ProducerId:
        """The producer id and its epoch."""
        return ProducerId(self.producer_id, self.epoch)

    @property
    def prefix(self) -> int:
        """The version of the value."""
        return self.record_version

    def body(self) -> bytes:
        """Encode the recorded fields."""
        is_empty = self.state is State.EMPTY
        value = _Value(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            timeout_ms=self.timeout_ms,
            status=self.state.value,
            partitions=None if is_empty else tuple(_by_topic(self.partitions)),
            updated_ms=self.updated_ms,
            start_ms=self.start_ms,
            previous_producer_id=self.previous_producer_id,
            next_producer_id=self.next_producer_id,
            version=self.version,
        )
        return encode_entity(value, _LAYOUTS[self.record_version])


def _of(kafka_type: str, tag: int | None = None) -> dict[str, Any]:
    return {"kafka_type": kafka_type} | ({} if tag is None else {"tag": tag})


@dataclass(frozen=True, slots=True)
class _PlainPartitions:
    """Partitions of one topic in version 0."""

    __flexible__: ClassVar[bool] = False
    topic: str = field(metadata=_of("string"))
    ids: tuple[int, ...] = field(metadata=_of("int32"))


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Partitions of one topic."""

    __flexible__: ClassVar[bool] = True
    topic: str = field(metadata=_of("string"))
    ids: tuple[int, ...] = field(metadata=_of("int32"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlainValue:
    """The fields of version 0."""

    __flexible__: ClassVar[bool] = False
    producer_id: int = field(metadata=_of("int64"))
    producer_epoch: int = field(metadata=_of("int16"))
    timeout_ms: int = field(metadata=_of("int32"))
    status: int = field(metadata=_of("int8"))
    partitions: tuple[_PlainPartitions, ...] | None
    updated_ms: int = field(metadata=_of("int64"))
    start_ms: int = field(metadata=_of("int64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """The fields of version 1."""

    __flexible__: ClassVar[bool] = True
    producer_id: int = field(metadata=_of("int64"))
    producer_epoch: int = field(metadata=_of("int16"))
    timeout_ms: int = field(metadata=_of("int32"))
    status: int = field(metadata=_of("int8"))
    partitions: tuple[_Partitions, ...] | None
    updated_ms: int = field(metadata=_of("int64"))
    start_ms: int = field(metadata=_of("int64"))
    previous_producer_id: int = field(metadata=_of("int64", tag=0), default=NO_PRODUCER_ID)
    next_producer_id: int = field(metadata=_of("int64", tag=1), default=NO_PRODUCER_ID)
    version: int = field(metadata=_of("int16", tag=2), default=0)


_LAYOUTS: Final[dict[int, Any]] = {PLAIN_VERSION: _PlainValue, TAGGED_VERSION: _Value}


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[_Partitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return (_Partitions(topic, tuple(ids)) for topic, ids in topics.items())


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """Decode a record; None for an unknown type, DecodeError if the log is damaged."""
    if _prefix(key) != TransactionKey.prefix:
        return None
    decoded_key = decode_entity(TransactionKey, key, offset=_PREFIX.size)
    return Record(decoded_key, None if value is None else _transaction(value))


def _transaction(data: bytes) -> Transaction:
    version = _prefix(data)
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise DecodeError(f"version {version} of a transaction's record is not known")
    value = decode_entity(_Value, data, layout, _PREFIX.size)
    if value.status not in set(State):
        raise DecodeError(f"a transaction's record has the unknown state {value.status}")
    return Transaction(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=State(value.status),
        partitions=frozenset(TopicPartition(of.topic, index) for of in value.partitions or () for index in of.ids),
        updated_ms=value.updated_ms,
        start_ms=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        version=value.version,
        record_version=version,
    )


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise DecodeError("a key or value without its version")
    number: int = _PREFIX.unpack_from(data)[0]
    return number
