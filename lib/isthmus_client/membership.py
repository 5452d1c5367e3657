"""What classic consumers tell one another through the coordinator: the topics a member wants, the partitions it gets. Pure.

Both are a 16-bit version and a struct that only grew, so whatever a newer version adds at the end is not looked at.
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
    """The topics a member wants."""
    return _VERSION + encode_entity(
        entity(subscription_v0.ConsumerProtocolSubscription, topics=tuple(sorted(topics)), user_data=None)
    )


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """The topics of any version's subscription; none for bytes of another protocol."""
    try:
        return tuple(decode_entity(subscription_v0.ConsumerProtocolSubscription, data, offset=len(_VERSION)).topics)
    except DecodeError:
        return ()


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The partitions a member gets."""
    topics = tuple(
        entity(assignment_v0.TopicPartition, topic=topic, partitions=tuple(indexes))
        for topic, indexes in by_topic(partitions).items()
    )
    return _VERSION + encode_entity(
        entity(assignment_v0.ConsumerProtocolAssignment, assigned_partitions=topics, user_data=None)
    )


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of any version's assignment; none for no bytes, or for those of another protocol."""
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
    """Kafka's range assignor: topic by topic, consecutive partitions to the members that want it, in order of their ids."""
    wanted = {member: set(topics) for member, topics in subscriptions.items()}
    given: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for topic, count in sorted(partition_counts.items()):
        members = sorted(member for member, topics in wanted.items() if topic in topics)
        if not members:
            continue
        each, more = divmod(count, len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + each + (place < more)
            given[member].extend(TopicPartition(topic, index) for index in range(start, end))
            start = end
    return given
