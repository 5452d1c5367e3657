"""Sends the ISR proposals of this node's leaders to the controller, in one AlterPartition at a time, until they are decided."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from isthmus_model.clocks import MonotonicClock
from isthmus_wire.errors import ErrorCode
from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.response import AlterPartitionResponse

from isthmus_broker.core.replica.isr_proposals import Decided, IsrProposals, Key
from isthmus_broker.core.replica.leader import IsrProposal
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.replication.partition import Partition

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.05


class Controllers(Protocol):
    """Sends requests to the active controller."""

    async def send(self, request: Any, *, on_lost: Callable[[], None]) -> Any:
        """Send a request and return its response; raises ControllerUnreachable. `on_lost` reports attempts without a response."""
        ...


class IsrChanges:
    """The sender of proposals, with one request under way at a time."""

    def __init__(
        self, controllers: Controllers, node_id: int, broker_epoch: Callable[[], int], clock: MonotonicClock
    ) -> None:
        self._controllers = controllers
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._proposals = IsrProposals()
        self._partitions: dict[Key, Partition] = {}
        self._task: asyncio.Task[None] | None = None

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send this proposal as soon as possible."""
        assert partition.leader is not None
        key = (partition.topic_id, partition.index)
        self._partitions[key] = partition
        self._proposals.add(key, partition.leader, proposal)
        if self._task is None:
            self._task = background(self._run())

    def stop(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # batch proposals of the same turn of the event loop
            while request := self._proposals.request(self._node_id, self._broker_epoch()):
                if not await self._send(request):
                    await asyncio.sleep(RETRY_SECONDS)
            self._partitions.clear()
        finally:
            self._task = None

    async def _send(self, request: AlterPartitionRequest) -> bool:
        """Send a request; returns whether every proposal in it is decided."""
        try:
            response: AlterPartitionResponse = await self._controllers.send(request, on_lost=self._proposals.copy_lost)
        except ControllerUnreachable as error:
            logger.warning("AlterPartition failed, retrying: %s", error)
            return False
        if response.error_code is not ErrorCode.none:
            logger.warning("the controller refused AlterPartition: %s", response.error_code.name)
        for decided in self._proposals.settle(response):
            self._apply(self._partitions[decided.key], decided)
        return self._proposals.is_settled

    def _apply(self, partition: Partition, decided: Decided) -> None:
        name = (partition.topic, partition.index)
        if decided.leadership is not None:
            logger.info("%s-%d: ISR is now %s", *name, decided.leadership.isr)
            partition.isr_changed(decided.leader, decided.leadership, self._clock())
        elif decided.error is not ErrorCode.none:
            logger.info("%s-%d: ISR change refused: %s", *name, decided.error.name)
