"""Being a member of a classic consumer group.

`partitions` is what the group gave this member in `generation`. When `lost` is set, the group is being divided anew: commit, then `join`
again. The protocol is the eager one, with Kafka's range assignor, so everything is given up before a new division.
"""

from collections.abc import Collection, Mapping
from typing import Final

from isthmus_client.classic_member import ClassicMember, Terms
from isthmus_client.client import Client
from isthmus_client.membership import (
    PROTOCOL_TYPE,
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from isthmus_client.metadata import TopicPartition

_TERMS: Final = Terms(PROTOCOL_TYPE, "range")


class GroupMember(ClassicMember):
    """One member; `join` before anything else and whenever `lost` is set, `leave` at the end."""

    keeps_partitions: Final = False

    def __init__(self, client: Client, group_id: str, topics: Collection[str]) -> None:
        super().__init__(client, group_id, _TERMS)
        self.partitions: tuple[TopicPartition, ...] = ()
        self._topics = tuple(sorted(topics))

    async def join(self) -> tuple[TopicPartition, ...]:
        """Become part of the next generation; returns what it gives this member."""
        self.partitions = decode_assignment(await self.enter())
        return self.partitions

    def subscription(self) -> bytes:
        """The topics."""
        return encode_subscription(self._topics)

    async def divide(self, wanted: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """By Kafka's range assignor."""
        subscriptions = {member: decode_subscription(metadata) for member, metadata in wanted.items()}
        topics = {topic for names in subscriptions.values() for topic in names}
        view = await self._client.refresh(topics)
        counts = {name: len(view.topics[name].partitions) for name in topics if name in view.topics}
        return {member: encode_assignment(given) for member, given in assign_range(subscriptions, counts).items()}
