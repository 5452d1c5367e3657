"""The consumer protocol: the content of JoinGroup's metadata and SyncGroup's assignments, opaque to the classic protocol."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from isthmus_wire.errors import DecodeError
from isthmus_wire.messages import decode_entity, encode_entity
from kio.schema.consumer_protocol_assignment.v0 import data as assignment_v0
from kio.schema.consumer_protocol_assignment.v1 import data as assignment_v1
from kio.schema.consumer_protocol_assignment.v2 import data as assignment_v2
from kio.schema.consumer_protocol_assignment.v3 import data as assignment_v3
from kio.schema.consumer_protocol_subscription.v0 import data as subscription_v0
from kio.schema.consumer_protocol_subscription.v1 import data as subscription_v1
from kio.schema.consumer_protocol_subscription.v2 import data as subscription_v2
from kio.schema.consumer_protocol_subscription.v3 import data as subscription_v3
from kio.schema.types import TopicName
from kio.static.primitive import i32

from isthmus_broker.core.group.view import ClusterView

CONSUMER_PROTOCOL: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
_NEWEST: Final = 3
_SUBSCRIPTIONS: Final[tuple[Any, ...]] = (
    subscription_v0.ConsumerProtocolSubscription,
    subscription_v1.ConsumerProtocolSubscription,
    subscription_v2.ConsumerProtocolSubscription,
    subscription_v3.ConsumerProtocolSubscription,
)
_ASSIGNMENTS: Final[tuple[Any, ...]] = (
    assignment_v0.ConsumerProtocolAssignment,
    assignment_v1.ConsumerProtocolAssignment,
    assignment_v2.ConsumerProtocolAssignment,
    assignment_v3.ConsumerProtocolAssignment,
)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer's subscription, and the partitions it owns while it joins."""

    topics: tuple[str, ...]
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    rack_id: str | None


def read_subscription(data: bytes) -> Subscription:
    """Decode the subscription in a member's metadata; raises DecodeError."""
    parsed = _read(data, subscription_v3.ConsumerProtocolSubscription, _SUBSCRIPTIONS)
    owned = tuple((str(entry.topic), tuple(entry.partitions)) for entry in parsed.owned_partitions)
    return Subscription(tuple(parsed.topics), owned, parsed.rack_id or None)


def read_topics(data: bytes) -> tuple[str, ...]:
    """The topics alone; every version has them at the same position."""
    _version(data)
    parsed = decode_entity(subscription_v0.ConsumerProtocolSubscription, data, offset=_VERSION.size)
    return tuple(parsed.topics)


def read_assignment(data: bytes) -> tuple[dict[str, tuple[int, ...]], bytes]:
    """The partitions by topic in a member's assignment, and the assignor's user data."""
    parsed = _read(data, assignment_v3.ConsumerProtocolAssignment, _ASSIGNMENTS)
    partitions = {
        str(entry.topic): tuple(int(index) for index in entry.partitions) for entry in parsed.assigned_partitions
    }
    return partitions, parsed.user_data or b""


def write_assignment(like: bytes, assigned: Mapping[UUID, Iterable[int]], view: ClusterView) -> bytes:
    """Encode an assignment in the version of the subscription `like`, without topics that no longer exist."""
    version = min(_version(like), _NEWEST)
    entries = tuple(
        assignment_v3.TopicPartition(
            topic=TopicName(topic.name), partitions=tuple(map(i32, sorted(assigned[topic_id])))
        )
        for topic_id in assigned
        if (topic := view.topic_by_id(topic_id)) is not None
    )
    body = assignment_v3.ConsumerProtocolAssignment(assigned_partitions=entries, user_data=None)
    return _VERSION.pack(version) + encode_entity(body, _ASSIGNMENTS[version])


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError("the consumer protocol's version is missing")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"version {version} of the consumer protocol")
    return version


def _read(data: bytes, target: Any, layouts: tuple[Any, ...]) -> Any:
    """A newer, unknown version starts with the known fields."""
    layout = layouts[min(_version(data), _NEWEST)]
    return decode_entity(target, data, layout, _VERSION.size)
