"""The kinds of tasks: what each is asked with, into which items it falls, and a step of one item.

A step may be interrupted anywhere and done again: it looks at the cluster first and does what is missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from isthmus_balancer.core.schedule import Pace
from isthmus_balancer.edge.executor import Executor, Progress
from isthmus_client.admin import mirrors as mirror_admin
from isthmus_client.admin import partitions as partition_admin
from isthmus_client.admin import topics as topic_admin
from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import MirrorAction, MirrorState
from pydantic import Field, RootModel, model_validator

from isthmus_api.limits import TASK_ITEMS_MAX, TASK_SECONDS_MAX
from isthmus_api.models import Wanted
from isthmus_api.tasks.outcomes import Done, Failed, NotYet, Outcome, Tell

_INT32_MAX = 2**31 - 1


class TopicToCreate(Wanted):
    """A topic; what is left out is the cluster's default."""

    topic_name: str = Field(min_length=1, max_length=249)
    partitions_count: int = Field(-1, ge=-1, le=_INT32_MAX)
    replication_factor: int = Field(-1, ge=-1, le=2**15 - 1)
    configs: dict[str, str] = Field(default_factory=dict)


class CreateTopics(Wanted):
    """Create many topics. One that is there already with as many partitions is taken as created."""

    kind: Literal["create-topics"]
    cluster_id: str
    topics: list[TopicToCreate] = Field(min_length=1, max_length=TASK_ITEMS_MAX)

    def items(self) -> list[dict[str, Any]]:
        """A topic each."""
        return [topic.model_dump() for topic in self.topics]

    async def step(self, client: Client, item: dict[str, Any], _tell: Tell) -> Outcome:
        """Create it, or see that it is there."""
        topic = TopicToCreate.model_validate(item)
        wanted = topic_admin.NewTopic(
            topic.topic_name, topic.partitions_count, topic.replication_factor, configs=topic.configs
        )
        refused = (await topic_admin.create(client, [wanted]))[topic.topic_name]
        if refused is None:
            return Done()
        if refused.code is not ErrorCode.topic_already_exists:
            raise refused
        found = (await topic_admin.describe(client, [topic.topic_name]))[topic.topic_name]
        if topic.partitions_count in (-1, len(found.partitions)):
            return Done("it is there already")
        return Failed(f"it is there already with {len(found.partitions)} partitions")


class PartitionToMove(Wanted):
    """A partition and the brokers it shall have, the preferred leader first."""

    topic_name: str
    partition_id: int = Field(ge=0, le=_INT32_MAX)
    broker_ids: list[int] = Field(min_length=1, max_length=1000)


class Reassign(Wanted):
    """Move partitions to other brokers, and wait until they are there."""

    kind: Literal["reassign-partitions"]
    cluster_id: str
    partitions: list[PartitionToMove] = Field(min_length=1, max_length=TASK_ITEMS_MAX)

    @model_validator(mode="after")
    def _each_once(self) -> Reassign:
        if len({(one.topic_name, one.partition_id) for one in self.partitions}) < len(self.partitions):
            raise ValueError("a partition is named more than once")
        return self

    def items(self) -> list[dict[str, Any]]:
        """A partition each."""
        return [partition.model_dump() for partition in self.partitions]

    async def step(self, client: Client, item: dict[str, Any], _tell: Tell) -> Outcome:
        """Begin the move when it is not under way, and see whether it has ended."""
        wanted = PartitionToMove.model_validate(item)
        partition = TopicPartition(wanted.topic_name, wanted.partition_id)
        topic = (await topic_admin.describe(client, [partition.topic]))[partition.topic]
        found = topic.partitions.get(partition.partition)
        if found is None:
            return Failed(f"partition {partition} does not exist")
        moving = {move.partition: move for move in await partition_admin.moves(client)}.get(partition)
        if moving is None and found.replicas == tuple(wanted.broker_ids):
            return Done()
        if moving is None or _target(moving) != tuple(wanted.broker_ids):
            refused = (await partition_admin.reassign(client, {partition: wanted.broker_ids}))[partition]
            if refused is not None:
                raise refused
        return NotYet("it moves")


def _target(move: partition_admin.Move) -> tuple[int, ...]:
    return tuple(replica for replica in move.replicas if replica not in move.removing)


class PlannedPartition(PartitionToMove):
    """The same, as a plan tells it."""

    observers: int = Field(0, ge=0, le=1000, description="How many of the last brokers observe.")


class AlterMirrors(Wanted):
    """Promote mirror topics, or fail them over, and wait until clients can write to them."""

    kind: Literal["alter-mirrors"]
    cluster_id: str
    action: Literal["promote", "failover"]
    topics: list[str] = Field(min_length=1, max_length=TASK_ITEMS_MAX)

    def items(self) -> list[dict[str, Any]]:
        """A topic each."""
        return [{"topic_name": topic} for topic in dict.fromkeys(self.topics)]

    async def step(self, client: Client, item: dict[str, Any], _tell: Tell) -> Outcome:
        """Ask for it, unless it was asked for, and see whether the topic is open."""
        topic = str(item["topic_name"])
        (mirror,) = await mirror_admin.describe_mirrors(client, topics=[topic])
        if mirror.state == MirrorState.STOPPED:
            return Done()
        if mirror.state == MirrorState.PENDING_STOPPED and self.action == "promote":
            return NotYet(f"{topic} is being promoted")
        altered = (await mirror_admin.alter_mirrors(client, MirrorAction(self.action), [topic]))[topic]
        refused = mirror_admin.refusal(altered)
        if refused is not None:
            raise refused
        return NotYet(f"{topic} was asked to {self.action}")


class ExecutePlan(Wanted):
    """Move partitions as a balancer's plan says: a few at a time, under throttles that are lifted whatever happens."""

    kind: Literal["execute-plan"]
    cluster_id: str
    partitions: list[PlannedPartition] = Field(min_length=1, max_length=TASK_ITEMS_MAX)
    bytes_per_second: int = Field(10_000_000, ge=0, le=2**53, description="For each broker; 0 holds nothing back.")
    moves_per_broker: int = Field(5, ge=1, le=1000)

    def items(self) -> list[dict[str, Any]]:
        """All of it in one: the throttles are its own from the first move to the last."""
        return [{"partitions": len(self.partitions)}]

    async def step(self, client: Client, _item: dict[str, Any], tell: Tell) -> Outcome:
        """Until everything is where it belongs; done again, it goes on with what is not."""
        targets = {(one.topic_name, one.partition_id): tuple(one.broker_ids) for one in self.partitions}
        observers = {(one.topic_name, one.partition_id): one.observers for one in self.partitions}
        pace = Pace(per_broker=self.moves_per_broker, bytes_per_second=self.bytes_per_second)

        def say(progress: Progress) -> None:
            tell(f"{progress.done} of {progress.in_all} partitions moved, {progress.under_way} under way")

        progress = await Executor(client, targets, observers, pace, say).run()
        if progress.failures:
            return Failed("; ".join(f"{partition}: {why}" for partition, why in sorted(progress.failures.items())))
        return Done(f"{progress.done} partitions moved")


Settings = CreateTopics | Reassign | AlterMirrors | ExecutePlan
STEP_SECONDS: Final[dict[str, int]] = {"execute-plan": TASK_SECONDS_MAX}
"""Kinds whose steps may take longer than a question to a cluster."""


class CreateTaskRequest(RootModel[Annotated[Settings, Field(discriminator="kind")]]):
    """A task of one of the kinds."""
