"""The kinds of tasks: their settings, their items, and the step of one item.

A step may be interrupted and repeated: it compares with the cluster and does what is missing.
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
from isthmus_api.models import RequestBody
from isthmus_api.tasks.outcomes import Done, Failed, NotYet, Outcome, Tell

_INT32_MAX = 2**31 - 1


class TopicToCreate(RequestBody):
    """A topic; omitted fields are the cluster's defaults."""

    topic_name: str = Field(min_length=1, max_length=249)
    partitions_count: int = Field(-1, ge=-1, le=_INT32_MAX)
    replication_factor: int = Field(-1, ge=-1, le=2**15 - 1)
    configs: dict[str, str] = Field(default_factory=dict)


class CreateTopics(RequestBody):
    """Create many topics. An existing topic with the same number of partitions counts as created."""

    kind: Literal["create-topics"]
    cluster_id: str
    topics: list[TopicToCreate] = Field(min_length=1, max_length=TASK_ITEMS_MAX)

    def items(self) -> list[dict[str, Any]]:
        """One item for each topic."""
        return [topic.model_dump() for topic in self.topics]

    async def step(self, client: Client, item: dict[str, Any], _tell: Tell) -> Outcome:
        """Create the topic unless it exists."""
        topic = TopicToCreate.model_validate(item)
        new = topic_admin.NewTopic(
            topic.topic_name, topic.partitions_count, topic.replication_factor, configs=topic.configs
        )
        refused = (await topic_admin.create(client, [new]))[topic.topic_name]
        if refused is None:
            return Done()
        if refused.code is not ErrorCode.topic_already_exists:
            raise refused
        existing = (await topic_admin.describe(client, [topic.topic_name]))[topic.topic_name]
        if topic.partitions_count in (-1, len(existing.partitions)):
            return Done("it exists")
        return Failed(f"it exists with {len(existing.partitions)} partitions")


class PartitionToMove(RequestBody):
    """A partition and its target brokers, the preferred leader first."""

    topic_name: str
    partition_id: int = Field(ge=0, le=_INT32_MAX)
    broker_ids: list[int] = Field(min_length=1, max_length=1000)


class Reassign(RequestBody):
    """Move partitions to other brokers, and wait for completion."""

    kind: Literal["reassign-partitions"]
    cluster_id: str
    partitions: list[PartitionToMove] = Field(min_length=1, max_length=TASK_ITEMS_MAX)

    @model_validator(mode="after")
    def _each_once(self) -> Reassign:
        if len({(one.topic_name, one.partition_id) for one in self.partitions}) < len(self.partitions):
            raise ValueError("a partition is listed twice")
        return self

    def items(self) -> list[dict[str, Any]]:
        """One item for each partition."""
        return [partition.model_dump() for partition in self.partitions]

    async def step(self, client: Client, item: dict[str, Any], _tell: Tell) -> Outcome:
        """Start the reassignment unless it is in progress, and check whether it is complete."""
        move = PartitionToMove.model_validate(item)
        partition = TopicPartition(move.topic_name, move.partition_id)
        topic = (await topic_admin.describe(client, [partition.topic]))[partition.topic]
        current = topic.partitions.get(partition.partition)
        if current is None:
            return Failed(f"partition {partition} does not exist")
        moving = {move.partition: move for move in await partition_admin.moves(client)}.get(partition)
        if moving is None and current.replicas == tuple(move.broker_ids):
            return Done()
        if moving is None or _target(moving) != tuple(move.broker_ids):
            refused = (await partition_admin.reassign(client, {partition: move.broker_ids}))[partition]
            if refused is not None:
                raise refused
        return NotYet("in progress")


def _target(move: partition_admin.Move) -> tuple[int, ...]:
    return tuple(replica for replica in move.replicas if replica not in move.removing)


class PlannedPartition(PartitionToMove):
    """A partition's move, as a plan contains it."""

    observers: int = Field(0, ge=0, le=1000, description="The number of observers, the last of the brokers.")


class AlterMirrors(RequestBody):
    """Promote or fail over mirror topics, and wait until they are writable."""

    kind: Literal["alter-mirrors"]
    cluster_id: str
    action: Literal["promote", "failover"]
    topics: list[str] = Field(min_length=1, max_length=TASK_ITEMS_MAX)

    def items(self) -> list[dict[str, Any]]:
        """One item for each topic."""
        return [{"topic_name": topic} for topic in dict.fromkeys(self.topics)]

    async def step(self, client: Client, item: dict[str, Any], _tell: Tell) -> Outcome:
        """Request the change unless it is in progress, and check whether the topic is writable."""
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
        return NotYet(f"{topic}: {self.action} requested")


class ExecutePlan(RequestBody):
    """Execute a balancer's plan: a few moves at a time, under throttles that are always removed."""

    kind: Literal["execute-plan"]
    cluster_id: str
    partitions: list[PlannedPartition] = Field(min_length=1, max_length=TASK_ITEMS_MAX)
    bytes_per_second: int = Field(
        10_000_000, ge=0, le=2**53, description="Bytes per second per broker; 0 disables the throttle."
    )
    moves_per_broker: int = Field(5, ge=1, le=1000)

    def items(self) -> list[dict[str, Any]]:
        """One item for all moves, so that the throttles last from the first to the last."""
        return [{"partitions": len(self.partitions)}]

    async def step(self, client: Client, _item: dict[str, Any], tell: Tell) -> Outcome:
        """Execute the remaining moves; repeated, it continues with those that are missing."""
        targets = {(one.topic_name, one.partition_id): tuple(one.broker_ids) for one in self.partitions}
        observers = {(one.topic_name, one.partition_id): one.observers for one in self.partitions}
        pace = Pace(per_broker=self.moves_per_broker, bytes_per_second=self.bytes_per_second)

        def say(progress: Progress) -> None:
            tell(f"{progress.done} of {progress.in_all} partitions moved, {progress.under_way} in progress")

        progress = await Executor(client, targets, observers, pace, say).run()
        if progress.failures:
            return Failed("; ".join(f"{partition}: {why}" for partition, why in sorted(progress.failures.items())))
        return Done(f"{progress.done} partitions moved")


Settings = CreateTopics | Reassign | AlterMirrors | ExecutePlan
STEP_SECONDS: Final[dict[str, int]] = {"execute-plan": TASK_SECONDS_MAX}
"""Kinds whose steps may take longer than one request to a cluster."""


class CreateTaskRequest(RootModel[Annotated[Settings, Field(discriminator="kind")]]):
    """A task of one of the kinds."""
