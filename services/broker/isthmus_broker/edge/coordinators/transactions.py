"""The transaction coordinator of this node: requests to its shards, and the effects that they have."""

import asyncio
from dataclasses import replace
from typing import Any, Final

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.transaction.requests import (
    Listing,
    ListTransactions,
    MarkersWritten,
    NeedsProducerId,
    Resubmit,
    WriteMarkers,
    refuse,
)
from isthmus_broker.edge.background import background
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.controller.producer_ids import ProducerIds
from isthmus_broker.edge.coordinators.host import CoordinatorHost
from isthmus_broker.edge.coordinators.marker_sender import MarkerSender

_CONTEXT: Final = RequestContext(api_version=0)


class Transactions:
    """Calls to the shards."""

    def __init__(self, host: CoordinatorHost[int], producer_ids: ProducerIds) -> None:
        self.host = host
        self._producer_ids = producer_ids

    def shard_of(self, transactional_id: str) -> int:
        """The partition of __transaction_state to which the id belongs."""
        return coordinator_partition(transactional_id, self.host.topic_partitions())

    async def call(self, request: Any) -> Any:
        """The response of the shard to which the request's transactional id belongs."""
        shard = self.shard_of(request.transactional_id)
        response = await self._submit(shard, request)
        if not isinstance(response, NeedsProducerId):
            return response
        try:
            spare_id = await self._producer_ids.next()
        except ControllerUnreachable:
            return refuse(request, ErrorCode.coordinator_load_in_progress)
        return await self._submit(shard, replace(request, spare_id=spare_id))

    async def list(self, request: ListTransactions) -> Listing:
        """The transactional ids of all shards of this node; a shard that is loading delays the whole response."""
        listings = [await self._submit(shard, request) for shard in self.host.partitions()]
        for listing in listings:
            if listing.error not in (ErrorCode.none, ErrorCode.not_coordinator):
                return Listing(listing.error)
        return Listing(transactions=tuple(one for listing in listings for one in listing.transactions))

    def report_written(self, shard: int, report: MarkersWritten) -> None:
        """Report partitions that have their markers."""
        self.host.submit(shard, report, _CONTEXT, lambda _response: None)

    def carry_out(self, markers: MarkerSender, shard: int, effect: object) -> None:
        """Carry out an effect of a shard."""
        if isinstance(effect, WriteMarkers):
            markers.send(shard, effect)
        else:
            assert isinstance(effect, Resubmit)
            background(self._resubmit(shard, effect))

    async def _resubmit(self, shard: int, effect: Resubmit) -> None:
        try:
            spare_id = await self._producer_ids.next()
        except ControllerUnreachable:
            return  # the next check of timeouts repeats it
        await self._submit(shard, replace(effect.request, spare_id=spare_id))

    async def _submit(self, shard: int, request: Any) -> Any:
        response: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        if not self.host.submit(shard, request, _CONTEXT, response.set_result):
            return refuse(request, ErrorCode.not_coordinator)
        return await response
