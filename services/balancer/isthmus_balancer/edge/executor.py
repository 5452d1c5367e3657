"""Execute a plan: a few partitions at a time, with throttles that are always removed at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from isthmus_client.admin import partitions, topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Partition, TopicPartition

from isthmus_balancer.core.schedule import Key, Pace, next_moves
from isthmus_balancer.edge.throttles import Throttles

logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5


@dataclass(slots=True)
class Progress:
    """The progress of a run."""

    in_all: int
    done: int = 0
    under_way: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """The reasons by partition that could not be moved."""


class Executor:
    """One run of one plan; cancelling it reverts the moves under way."""

    def __init__(
        self,
        client: Client,
        targets: Mapping[Key, tuple[int, ...]],
        observers: Mapping[Key, int],
        pace: Pace,
        report: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        """`observers` is the number of observers at the end of each assignment; they are not in the ISR."""
        self._client = client
        self._observers = observers
        self._targets = dict(targets)
        self._waiting = dict(targets)
        self._pace = pace
        self._report = report
        self._progress = Progress(len(targets))
        self._throttles = Throttles(client)
        self._begun: set[Key] = set()

    async def run(self) -> Progress:
        """Run until every partition has been moved or has failed. Raises ClientError."""
        await self._throttles.lift_left_behind()
        current = await self._list_partitions()
        placed = {key: current[key].replicas for key in self._targets if key in current}
        if self._pace.bytes_per_second:
            present = {key: target for key, target in self._targets.items() if key in placed}
            await self._throttles.apply(placed, present, self._pace.bytes_per_second)
        try:
            await self._move_all()
        except asyncio.CancelledError:
            await self._cancel_moves()
            raise
        finally:
            await asyncio.shield(self._throttles.lift())
        return self._progress

    async def _move_all(self) -> None:
        while True:
            current, moving = (
                await self._list_partitions(),
                {(m.partition.topic, m.partition.partition) for m in await partitions.moves(self._client)},
            )
            for key, target in list(self._waiting.items()):
                if key not in current:
                    self._fail(key, "the topic was deleted")
                elif key not in moving and current[key].replicas == target:
                    del self._waiting[key]
                    self._progress.done += 1
            self._progress.under_way = len(self._begun & moving & self._waiting.keys())
            self._report(self._progress)
            if not self._waiting:
                break
            await self._begin(current, moving)
            await asyncio.sleep(_POLL_SECONDS)
        await self._elect()

    async def _begin(self, current: Mapping[Key, Partition], moving: set[Key]) -> None:
        placed = {key: partition.replicas for key, partition in current.items() if key in self._waiting}
        ready = {key for key in placed if self._is_whole(key, current[key])}
        chosen = next_moves(self._waiting, placed, moving, ready or self._stuck(placed, moving), self._pace)
        if not chosen:
            return
        responses = await partitions.reassign(
            self._client, {TopicPartition(*key): self._waiting[key] for key in chosen}
        )
        for partition, refused in responses.items():
            moved = (partition.topic, partition.partition)
            if refused is None:
                self._begun.add(moved)
            else:
                self._fail(moved, str(refused))

    def _is_whole(self, key: Key, partition: Partition) -> bool:
        sync = partition.replicas[: len(partition.replicas) - self._observers.get(key, 0)]
        return set(sync) <= set(partition.in_sync)

    def _stuck(self, placed: Mapping[Key, tuple[int, ...]], moving: set[Key]) -> set[Key]:
        """The remaining partitions if nothing is moving and none is ready: the plan may replace their replicas that are out of sync."""
        return set() if moving else set(placed)

    async def _elect(self) -> None:
        """Elect the preferred leaders."""
        moved = [
            partition for key in self._targets if str(partition := TopicPartition(*key)) not in self._progress.failures
        ]
        try:
            await partitions.elect(self._client, moved)
        except ClientError as error:
            logger.warning("preferred leader election failed: %s", error)

    async def _cancel_moves(self) -> None:
        moving = {(m.partition.topic, m.partition.partition) for m in await partitions.moves(self._client)}
        cancelled = {TopicPartition(*key): None for key in sorted(self._begun & moving)}
        if cancelled:
            await partitions.reassign(self._client, cancelled)

    async def _list_partitions(self) -> dict[Key, Partition]:
        listed = await topics.list_topics(self._client)
        return {
            (name, index): partition for name, topic in listed.items() for index, partition in topic.partitions.items()
        }

    def _fail(self, key: Key, why: str) -> None:
        self._waiting.pop(key, None)
        self._progress.failures[str(TopicPartition(*key))] = why
        logger.warning("cannot move %s-%d: %s", *key, why)
