"""Being a member of a consumer group of the new kind (KIP-848): the coordinator divides the partitions, members heartbeat.

It has the surface of `GroupMember`: when `lost` is set, `join` returns what belongs to this member now. Partitions that it keeps go on
being read; those that it gives up are given back when `join` is called, so whoever commits before loses nothing.
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
        self._target: tuple[TopicPartition, ...] | None = None  # what the coordinator gives this member
        self._interval = HEARTBEAT_SECONDS
        self._lane = f"group {next(_lanes)}"
        self._heartbeats: asyncio.Task[None] | None = None

    async def join(self) -> tuple[TopicPartition, ...]:
        """Become a member, or take over what the coordinator gives; returns what belongs to this member."""
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
        while self._target is None:  # other members give up their partitions first
            await asyncio.sleep(self._interval)
            await self._beat(self.generation)
        if self._target != self.partitions:
            self.partitions = self._target
            await self._beat(self.generation, owned=self.partitions)

    def _forget(self) -> None:
        """The group goes on without this member; it joins anew, and owns nothing."""
        self.generation, self.partitions = -1, ()

    async def _stay(self) -> None:
        """Until the coordinator wants something else of this member, or does not know it any more."""
        while not self.lost.is_set():
            await asyncio.sleep(self._interval)
            try:
                await self._beat(self.generation)
            except ClientError as error:
                if isinstance(error, Refused) and error.code in _FENCED:
                    self._forget()
                self.lost.set()

    async def _beat(self, epoch: int, owned: Collection[TopicPartition] | None = None) -> None:
        """One heartbeat; with `owned` it tells everything, which the coordinator may want to know after a change."""
        tells = owned is not None
        request = entity(
            ConsumerGroupHeartbeatRequest,
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout=millis(REBALANCE_TIMEOUT_MS if tells else -1),
            subscribed_topic_names=self._topics if tells else None,
            topic_partitions=self._by_id(owned) if owned is not None else None,
        )

        def told(response: Any) -> None:
            check(response.error_code, f"heartbeat to group {self.group_id}", response.error_message)

        answer = await self._client.send_to_coordinator(
            self.group_id, ApiKey.CONSUMER_GROUP_HEARTBEAT, request, told, lane=self._lane
        )
        self.generation = answer.member_epoch
        self._interval = to_millis(answer.heartbeat_interval) / 1000 or HEARTBEAT_SECONDS
        if answer.assignment is not None:
            self._target = await self._named(answer.assignment.topic_partitions)
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
        """By name; a topic that this client does not know yet is asked for."""
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
        """Let the others have the partitions at once; raises ClientError, and then the session timeout does it."""
        await self._stop_heartbeats()
        try:
            if self.generation > _JOINING:
                await self._beat(_LEAVING)
        finally:
            self._client.close_lane(self._lane)
