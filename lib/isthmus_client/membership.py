"""Subscriptions and assignments of the classic consumer protocol. Pure.

Both are a 16-bit version and a struct that only grew; fields that newer versions add at the end are ignored.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import DecodeError
from isthmus_wire.messages import decode_entity, encode_entity
from kio.schema.consumer_protocol_assignment.v0 import data as assignment_v0
from kio.schema.consumer_protocol_subscription.v0 import data as subscription_v0

from isthmus_client.metadata import TopicPartition, by_topic

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = b"\0\0"


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Encode the topics that a member subscribes to."""
    return _VERSION + encode_entity(
        entity(subscription_v0.ConsumerProtocolSubscription, topics=tuple(sorted(topics)), user_data=None)
    )


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """Decode the topics of a subscription of any version; empty for another protocol's bytes."""
    try:
        return tuple(decode_entity(subscription_v0.ConsumerProtocolSubscription, data, offset=len(_VERSION)).topics)
    except DecodeError:
        return ()


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode the partitions assigned to a member."""
    topics = tuple(
        entity(assignment_v0.TopicPartition, topic=topic, partitions=tuple(indexes))
        for topic, indexes in by_topic(partitions).items()
    )
    return _VERSION + encode_entity(
        entity(assignment_v0.ConsumerProtocolAssignment, assigned_partitions=topics, user_data=None)
    )


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Decode the partitions of an assignment of any version; empty for no bytes or another protocol's bytes."""
    if not data:
        return ()
    try:
        decoded = decode_entity(assignment_v0.ConsumerProtocolAssignment, data, offset=len(_VERSION))
    except DecodeError:
        return ()
    return tuple(sorted(TopicPartition(t.topic, p) for t in decoded.assigned_partitions for p in t.partitions))


def assign_range(
    subscriptions: Mapping[str, Iterable[str]], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign as Kafka's range assignor: per topic, consecutive partitions to its subscribers in the order of their ids."""
    subscribed = {member: set(topics) for member, topics in subscriptions.items()}
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, count in sorted(partition_counts.items()):
        members = sorted(member for member, topics in subscribed.items() if topic in topics)
        if not members:
            continue
        each, more = divmod(count, len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + each + (place < more)
            assigned[member].extend(TopicPartition(topic, index) for index in range(start, end))
            start = end
    return assigned
