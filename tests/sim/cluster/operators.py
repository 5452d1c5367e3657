"""An operator, who changes the cluster under load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random

from isthmus_client.admin import configs, partitions, topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_model.config_resources import ResourceType

from tests.histories import Event, Trimmed
from tests.sim.cluster.plan import CONSTRAINTS, MIN_IN_SYNC, OBSERVED, Plan, random_constraints

SCRATCH = "scratch"


class Operator:
    """Reassigns, elects, changes configs, deletes records, creates and deletes topics, at random."""

    def __init__(
        self,
        client: Client,
        plan: Plan,
        pause: float,
        places: Sequence[TopicPartition],
        ends: Mapping[TopicPartition, int],
        record: Callable[[Event], None],
        random: Random,
    ) -> None:
        """`pause` is the mean time between changes; `ends` are the highest offsets that were acknowledged."""
        self.is_finishing = False
        self._client = client
        self._plan = plan
        self._pause = pause
        self._places = places
        self._ends = ends
        self._record = record
        self._random = random

    async def run(self) -> None:
        """Change something again and again."""
        changes = [self._reassign, self._elect, self._alter, self._delete_records, self._create, self._delete]
        if any(place.topic == OBSERVED for place in self._places):
            changes.append(self._constrain)
        while not self.is_finishing:
            await asyncio.sleep(2 * self._pause * self._random.random())
            try:
                await self._random.choice(changes)()
            except ClientError:
                continue

    async def _reassign(self) -> None:
        """Reassign a partition, or cancel its reassignment. Never to one replica alone: no power loss would be allowed then."""
        partition = self._random.choice(self._places)
        factors = {topic.name: topic.factor for topic in self._plan.topics}
        factor = max(factors.get(partition.topic, -1), min(MIN_IN_SYNC, len(self._plan.brokers)))
        target = self._random.sample(list(self._plan.brokers), factor)
        await partitions.reassign(self._client, {partition: None if self._random.random() < 0.2 else target})

    async def _elect(self) -> None:
        await partitions.elect(self._client, None)

    async def _alter(self) -> None:
        value = self._random.choice(("1500", "4000", "1048576"))
        await self._set(self._random.choice(self._places).topic, "internal.segment.bytes", value)

    async def _constrain(self) -> None:
        """Change the placement constraints; the controller moves replicas and observers."""
        await self._set(OBSERVED, CONSTRAINTS, random_constraints(self._random))

    async def _set(self, topic: str, name: str, value: str) -> None:
        resource = configs.Resource(ResourceType.TOPIC, topic)
        await configs.alter(self._client, {resource: [configs.Change(name, configs.Operation.SET, value)]})

    async def _delete_records(self) -> None:
        """Delete the oldest records of a partition that is not compacted."""
        partition = self._places[0]
        before = self._random.randint(0, self._ends.get(partition, 0))
        self._record(Trimmed(partition, before))
        await topics.delete_records(self._client, {partition: before})

    async def _create(self) -> None:
        await topics.create(self._client, [topics.NewTopic(SCRATCH, 2)])

    async def _delete(self) -> None:
        await topics.delete(self._client, [SCRATCH])
