"""Carrying a plan out: a few partitions at a time, held back by throttles that are lifted at the end, whatever the end is."""

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

_LOOK_SECONDS: Final = 0.5


@dataclass(slots=True)
class Progress:
    """How far a run is."""

    in_all: int
    done: int = 0
    under_way: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """Partitions that could not be moved, and why."""


class Executor:
    """One run of one plan; cancelled, it takes back what is under way."""

    def __init__(
        self,
        client: Client,
        targets: Mapping[Key, tuple[int, ...]],
        observers: Mapping[Key, int],
        pace: Pace,
        tell: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        """`observers` is how many of the last replicas of a partition observe: they are in sync with nobody."""
        self._client = client
        self._observers = observers
        self._targets = dict(targets)
        self._waiting = dict(targets)
        self._pace = pace
        self._tell = tell
        self._progress = Progress(len(targets))
        self._throttles = Throttles(client)
        self._begun: set[Key] = set()

    async def run(self) -> Progress:
        """Until everything is where it belongs or cannot get there. Raises ClientError when the cluster cannot be worked with."""
        await self._throttles.lift_left_behind()
        known = await self._look()
        placed = {key: known[key].replicas for key in self._targets if key in known}
        if self._pace.bytes_per_second:
            present = {key: target for key, target in self._targets.items() if key in placed}
            await self._throttles.apply(placed, present, self._pace.bytes_per_second)
        try:
            await self._move_all()
        except asyncio.CancelledError:
            await self._take_back()
            raise
        finally:
            await asyncio.shield(self._throttles.lift())
        return self._progress

    async def _move_all(self) -> None:
        while True:
            known, moving = (
                await self._look(),
                {(m.partition.topic, m.partition.partition) for m in await partitions.moves(self._client)},
            )
            for key, target in list(self._waiting.items()):
                if key not in known:
                    self._fail(key, "the topic is gone")
                elif key not in moving and known[key].replicas == target:
                    del self._waiting[key]
                    self._progress.done += 1
            self._progress.under_way = len(self._begun & moving & self._waiting.keys())
            self._tell(self._progress)
            if not self._waiting:
                break
            await self._begin(known, moving)
            await asyncio.sleep(_LOOK_SECONDS)
        await self._elect()

    async def _begin(self, known: Mapping[Key, Partition], moving: set[Key]) -> None:
        placed = {key: partition.replicas for key, partition in known.items() if key in self._waiting}
        ready = {key for key in placed if self._is_whole(key, known[key])}
        chosen = next_moves(self._waiting, placed, moving, ready or self._stuck(placed, moving), self._pace)
        if not chosen:
            return
        answers = await partitions.reassign(self._client, {TopicPartition(*key): self._waiting[key] for key in chosen})
        for partition, refused in answers.items():
            moved = (partition.topic, partition.partition)
            if refused is None:
                self._begun.add(moved)
            else:
                self._fail(moved, str(refused))

    def _is_whole(self, key: Key, partition: Partition) -> bool:
        sync = partition.replicas[: len(partition.replicas) - self._observers.get(key, 0)]
        return set(sync) <= set(partition.in_sync)

    def _stuck(self, placed: Mapping[Key, tuple[int, ...]], moving: set[Key]) -> set[Key]:
        """With nothing ready and nothing under way the rest is moved as it is: its missing replicas may be what the plan replaces."""
        return set() if moving else set(placed)

    async def _elect(self) -> None:
        """Whoever comes first in an assignment leads."""
        moved = [place for key in self._targets if str(place := TopicPartition(*key)) not in self._progress.failures]
        try:
            await partitions.elect(self._client, moved)
        except ClientError as error:
            logger.warning("preferred leaders could not be elected: %s", error)

    async def _take_back(self) -> None:
        moving = {(m.partition.topic, m.partition.partition) for m in await partitions.moves(self._client)}
        cancelled = {TopicPartition(*key): None for key in sorted(self._begun & moving)}
        if cancelled:
            await partitions.reassign(self._client, cancelled)

    async def _look(self) -> dict[Key, Partition]:
        listed = await topics.list_topics(self._client)
        return {(name, index): known for name, topic in listed.items() for index, known in topic.partitions.items()}

    def _fail(self, key: Key, why: str) -> None:
        self._waiting.pop(key, None)
        self._progress.failures[str(TopicPartition(*key))] = why
        logger.warning("%s-%d cannot be moved: %s", *key, why)
