"""Assigns producer ids from the block that the controller allocated to this broker."""

import asyncio
from collections.abc import Callable

from isthmus_wire.entities import entity
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.edge.controller.controller_channel import ControllerChannel


class ProducerIds:
    """Returns each id once. The rest of a block is lost when the process dies, which costs nothing."""

    def __init__(
        self, controller: ControllerChannel, context: Callable[[], ControllerContext], broker_epoch: Callable[[], int]
    ) -> None:
        self._controller = controller
        self._context = context
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A new id; raises ControllerUnreachable."""
        async with self._lock:
            if self._next == self._end:
                await self._fetch_block()
            self._next += 1
            return self._next - 1

    async def _fetch_block(self) -> None:
        request = entity(
            AllocateProducerIdsRequest, broker_id=self._context().node.node_id, broker_epoch=self._broker_epoch()
        )
        response = await self._controller.send(request)
        self._next = int(response.producer_id_start)
        self._end = self._next + int(response.producer_id_len)
