"""What the leaders on this node propose to the controller: gathered into one AlterPartition at a time, sent again until it is decided."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from isthmus_wire.errors import ErrorCode
from kio.schema.alter_partition.v3 import request as alter
from kio.schema.alter_partition.v3 import response as altered

from isthmus_broker.core.metadata.result import entity
from isthmus_broker.core.replica.leader import IsrProposal, ReplicaLeader
from isthmus_broker.edge.clock import now_ms
from isthmus_broker.edge.drive.controller_channel import ControllerUnreachable
from isthmus_broker.edge.replica.partition import Partition

logger = logging.getLogger(__name__)

RECOVERED: Final = 0
PROPOSED_MAX: Final = 5_000
"""Partitions in one request; the rest goes with the next."""
RETRY_SECONDS: Final = 0.05
Key = tuple[UUID, int]


class Controllers(Protocol):
    """The way to the active controller."""

    async def ask(self, request: Any) -> Any:
        """Its response; raises ControllerUnreachable."""
        ...


class _Proposed(NamedTuple):
    partition: Partition
    leader: ReplicaLeader
    proposal: IsrProposal


class IsrChanges:
    """At most one request is under way."""

    def __init__(self, controllers: Controllers, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._controllers = controllers
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._proposed: dict[Key, _Proposed] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send this as soon as may be; it takes the place of what the partition's leader proposed in an earlier epoch."""
        assert partition.leader is not None
        self._proposed[partition.topic_id, partition.index] = _Proposed(partition, partition.leader, proposal)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """The node stops."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # whatever else this turn of the loop proposes goes with it
            while batch := dict(list(self._current().items())[:PROPOSED_MAX]):
                try:
                    is_settled = await self._send(batch)
                except Exception:
                    logger.exception("changes of in-sync replicas cannot be sent")
                    is_settled = False
                if not is_settled:
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._task = None

    def _current(self) -> dict[Key, _Proposed]:
        """Proposals that still stand: the metadata may have overtaken some."""
        self._proposed = {
            key: proposed
            for key, proposed in self._proposed.items()
            if proposed.partition.leader is proposed.leader and proposed.leader.in_flight is proposed.proposal
        }
        return self._proposed

    async def _send(self, batch: dict[Key, _Proposed]) -> bool:
        """Whether every proposal of the batch has its answer."""
        try:
            response: altered.AlterPartitionResponse = await self._controllers.ask(self._request(batch))
        except ControllerUnreachable as error:
            logger.warning("no controller decides on in-sync replicas: %s", error)
            return False
        if response.error_code is not ErrorCode.none:
            logger.warning("the controller refuses a change of in-sync replicas: %s", response.error_code.name)
            return False
        answers = {
            (topic.topic_id, int(answer.partition_index)): answer
            for topic in response.topics
            for answer in topic.partitions
            if topic.topic_id is not None
        }
        settled = [self._settle(key, proposed, answers.get(key)) for key, proposed in batch.items()]
        return all(settled)

    def _settle(self, key: Key, proposed: _Proposed, answer: altered.PartitionData | None) -> bool:
        error = ErrorCode.unknown_server_error if answer is None else answer.error_code
        if answer is None or error is not ErrorCode.none:
            if proposed.leader.answered(proposed.proposal, error):
                return False
            logger.info("%s-%d: in-sync replicas stay as they are: %s", *_name(proposed.partition), error.name)
        else:
            decided = proposed.leader.leadership._replace(
                isr=tuple(answer.isr), partition_epoch=int(answer.partition_epoch), recovering=bool(answer.leader_recovery_state)
            )  # fmt: skip
            if answer.leader_epoch == proposed.proposal.leader_epoch:
                logger.info("%s-%d: in sync are %s", *_name(proposed.partition), decided.isr)
                proposed.partition.isr_decided(proposed.leader, decided, now_ms())
        if self._proposed.get(key) is proposed:
            del self._proposed[key]
        return True

    def _request(self, batch: dict[Key, _Proposed]) -> alter.AlterPartitionRequest:
        by_topic: dict[UUID, list[alter.PartitionData]] = defaultdict(list)
        for (topic_id, index), (_, _, proposal) in batch.items():
            members = tuple(
                entity(alter.BrokerState, broker_id=broker, broker_epoch=epoch) for broker, epoch in proposal.isr
            )
            wanted = entity(
                alter.PartitionData,
                partition_index=index,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=members,
                leader_recovery_state=RECOVERED,
                partition_epoch=proposal.partition_epoch,
            )
            by_topic[topic_id].append(wanted)
        topics = tuple(
            entity(alter.TopicData, topic_id=topic_id, partitions=tuple(wanted))
            for topic_id, wanted in by_topic.items()
        )
        epoch = self._broker_epoch()
        return entity(alter.AlterPartitionRequest, broker_id=self._node_id, broker_epoch=epoch, topics=topics)


def _name(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.index
