"""Member of a classic consumer group.

`partitions` is this member's assignment in `generation`. When `lost` is set, the group rebalances: commit, then `join` again. The protocol
is eager, with Kafka's range assignor: members give up all partitions before each rebalance.
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
        """Join the next generation; returns this member's partitions."""
        self.partitions = decode_assignment(await self.enter())
        return self.partitions

    def subscription(self) -> bytes:
        """The topics."""
        return encode_subscription(self._topics)

    async def assign_members(self, subscriptions: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Assign with Kafka's range assignor."""
        members = {member: decode_subscription(metadata) for member, metadata in subscriptions.items()}
        topics = {topic for names in members.values() for topic in names}
        view = await self._client.refresh(topics)
        counts = {name: len(view.topics[name].partitions) for name in topics if name in view.topics}
        return {member: encode_assignment(assigned) for member, assigned in assign_range(members, counts).items()}
