"""Producer ids, allocated to brokers in blocks.

A cluster's ids begin at a number derived from its own id, so that batches copied from another cluster are unlikely to use a producer id of
this one.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.partitions import check_broker_epoch
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result
from isthmus_broker.core.metadata.schema import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
LAST_ID: Final = (1 << 63) - 1
_PREFIX_MASK: Final = 0x7FFFFFFE  # the highest prefix is excluded, so that a block never ends beyond the last id
_PREFIX_SHIFT: Final = 32


def allocate_producer_ids(
    image: ClusterImage, request: AllocateProducerIdsRequest, context: ControllerContext
) -> Result[AllocateProducerIdsResponse]:
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = image.next_producer_id if image.producer_ids is not None else first_id(context.cluster_id)
    if first > LAST_ID - BLOCK_SIZE:
        why = "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
        raise ControllerError(ErrorCode.unknown_server_error, why)
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    response = entity(
        AllocateProducerIdsResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        producer_id_start=first,
        producer_id_len=BLOCK_SIZE,
    )
    return Result((record,), response)


def first_id(cluster_id: str) -> int:
    """The cluster's own prefix in the upper half, zeros below: ids stay positive, and four thousand million fit under each prefix."""
    return (crc32c(cluster_id.encode()) & _PREFIX_MASK) << _PREFIX_SHIFT
