"""Member of a group of the consumer protocol (KIP-848): the coordinator assigns partitions, members heartbeat.

It has the interface of `GroupMember`: when `lost` is set, `join` returns the new assignment. Reading continues for partitions that it
keeps; the others are revoked when `join` is called, so commit before it.
"""

import asyncio
import itertools
from collections.abc import Collection
from typing import Any, Final
from uuid import uuid4

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import millis, to_millis
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest, TopicPartitions

from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.limits import HEARTBEAT_SECONDS, REBALANCE_TIMEOUT_MS
from isthmus_client.metadata import TopicPartition, by_topic

_lanes: Final = itertools.count()
_JOINING: Final = 0
_LEAVING: Final = -1
_FENCED: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class ConsumerMember:
    """One member; `join` before anything else and whenever `lost` is set, `leave` at the end."""

    keeps_partitions: Final = True

    def __init__(self, client: Client, group_id: str, topics: Collection[str]) -> None:
        self.group_id = group_id
        self.member_id = str(uuid4())
        self.generation = -1  # its epoch in the group
        self.partitions: tuple[TopicPartition, ...] = ()
        self.lost = asyncio.Event()
        self._client = client
        self._topics = tuple(sorted(topics))
        self._target: tuple[TopicPartition, ...] | None = None  # the coordinator's target assignment of this member
        self._interval = HEARTBEAT_SECONDS
        self._lane = f"group {next(_lanes)}"
        self._heartbeats: asyncio.Task[None] | None = None

    async def join(self) -> tuple[TopicPartition, ...]:
        """Join the group, or adopt the target assignment; returns this member's partitions."""
        await self._stop_heartbeats()
        while True:
            try:
                await self._reconcile()
                break
            except Refused as refused:
                if refused.code not in _FENCED:
                    raise
                self._forget()
        if self._target == self.partitions:
            self.lost.clear()
        self._heartbeats = asyncio.get_running_loop().create_task(self._stay())
        return self.partitions

    async def _reconcile(self) -> None:
        if self.generation <= _JOINING:
            self._target = None
            await self._beat(_JOINING, owned=())
        while self._target is None:  # other members revoke their partitions first
            await asyncio.sleep(self._interval)
            await self._beat(self.generation)
        if self._target != self.partitions:
            self.partitions = self._target
            await self._beat(self.generation, owned=self.partitions)

    def _forget(self) -> None:
        """Start over after being fenced: rejoin, owning no partitions."""
        self.generation, self.partitions = -1, ()

    async def _stay(self) -> None:
        """Send heartbeats until the assignment changes or the coordinator has removed this member."""
        while not self.lost.is_set():
            await asyncio.sleep(self._interval)
            try:
                await self._beat(self.generation)
            except ClientError as error:
                if isinstance(error, Refused) and error.code in _FENCED:
                    self._forget()
                self.lost.set()

    async def _beat(self, epoch: int, owned: Collection[TopicPartition] | None = None) -> None:
        """Send one heartbeat; with `owned`, the full one that the coordinator needs after a change."""
        is_full = owned is not None
        request = entity(
            ConsumerGroupHeartbeatRequest,
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout=millis(REBALANCE_TIMEOUT_MS if is_full else -1),
            subscribed_topic_names=self._topics if is_full else None,
            topic_partitions=self._by_id(owned) if owned is not None else None,
        )

        def verify(response: Any) -> None:
            check(response.error_code, f"heartbeat to group {self.group_id}", response.error_message)

        response = await self._client.send_to_coordinator(
            self.group_id, ApiKey.CONSUMER_GROUP_HEARTBEAT, request, verify, lane=self._lane
        )
        self.generation = response.member_epoch
        self._interval = to_millis(response.heartbeat_interval) / 1000 or HEARTBEAT_SECONDS
        if response.assignment is not None:
            self._target = await self._named(response.assignment.topic_partitions)
            if self._target != self.partitions:
                self.lost.set()

    def _by_id(self, partitions: Collection[TopicPartition]) -> tuple[TopicPartitions, ...]:
        topics = self._client.view.topics
        return tuple(
            entity(TopicPartitions, topic_id=topics[name].topic_id, partitions=tuple(indexes))
            for name, indexes in by_topic(partitions).items()
            if name in topics
        )

    async def _named(self, assigned: Collection[Any]) -> tuple[TopicPartition, ...]:
        """The partitions by name; refreshes the metadata for unknown topic ids."""
        if any(entry.topic_id not in self._client.view.names for entry in assigned):
            await self._client.refresh(self._topics)
        names = self._client.view.names
        return tuple(
            sorted(
                TopicPartition(names[entry.topic_id], int(index))
                for entry in assigned
                if entry.topic_id in names
                for index in entry.partitions
            )
        )

    async def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.wait([self._heartbeats])
            self._heartbeats = None

    async def leave(self) -> None:
        """Leave the group at once; raises ClientError, and then the session timeout removes the member."""
        await self._stop_heartbeats()
        try:
            if self.generation > _JOINING:
                await self._beat(_LEAVING)
        finally:
            self._client.close_lane(self._lane)
