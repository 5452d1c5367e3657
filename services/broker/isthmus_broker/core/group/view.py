"""The part of the cluster's metadata that groups need, as an immutable view, and Kafka's hashes of it."""

import struct
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

_INT32: Final = struct.Struct("<i")
_INT64: Final = struct.Struct("<q")
_HASH_FORMAT: Final = b"\0"


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic; `racks` contains for every partition the known racks of its replicas' brokers."""

    topic_id: UUID
    name: str
    racks: tuple[tuple[str, ...], ...]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.racks)


class ClusterView(Protocol):
    """The topics at one version of the metadata. An unchanged topic is the same or an equal object in the next view."""

    @property
    def version(self) -> int:
        """Grows with every change: the offset of the metadata log."""
        ...

    @property
    def names(self) -> Set[str]:
        """All topics."""
        ...

    def topic(self, name: str) -> TopicView | None:
        """A topic by its name."""
        ...

    def topic_by_id(self, topic_id: UUID) -> TopicView | None:
        """A topic by its id."""
        ...


@dataclass(frozen=True, slots=True)
class Topics:
    """A view based on two dictionaries."""

    version: int
    by_name: dict[str, TopicView] = field(default_factory=dict)
    by_id: dict[UUID, TopicView] = field(default_factory=dict)

    @classmethod
    def of(cls, version: int, topics: Iterable[TopicView]) -> "Topics":
        """Create the view of these topics."""
        listed = tuple(topics)
        return cls(version, {topic.name: topic for topic in listed}, {topic.topic_id: topic for topic in listed})

    @property
    def names(self) -> Set[str]:
        """All topics."""
        return self.by_name.keys()

    def topic(self, name: str) -> TopicView | None:
        """A topic by its name."""
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> TopicView | None:
        """A topic by its id."""
        return self.by_id.get(topic_id)


NO_TOPICS: Final = Topics(-1)


def topic_hash(topic: TopicView) -> int:
    """Kafka's hash of a topic: changes with its id, name, partition count and the racks of its replicas."""
    out = bytearray(_HASH_FORMAT)
    out += _INT64.pack(_signed(topic.topic_id.int >> 64))
    out += _INT64.pack(_signed(topic.topic_id.int & (2**64 - 1)))
    out += _text(topic.name)
    out += _INT32.pack(topic.partitions)
    for partition, racks in enumerate(topic.racks):
        out += _INT32.pack(partition)
        for rack in sorted(racks):
            out += _INT32.pack(_units(rack)) + _text(rack)
    return _digest(out)


def _digest(data: bytes | bytearray) -> int:
    from xxhash import xxh3_64_intdigest  # a node without groups of type consumer does not need it

    return _signed(xxh3_64_intdigest(data))


def group_hash(topic_hashes: dict[str, int]) -> int:
    """Kafka's hash of a group's subscribed topics, 0 for none."""
    if not topic_hashes:
        return 0
    hashes = b"".join(_INT64.pack(topic_hashes[name]) for name in sorted(topic_hashes))
    return _digest(hashes)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(text: str) -> bytes:
    """Text in hash4j's form for hashing: its UTF-16 units, then their number."""
    return text.encode("utf-16-le") + _INT32.pack(_units(text))
