"""AddOffsetsToTxn: the offsets of a group become part of the transaction, by the partition of __consumer_offsets that will have them."""

from isthmus_model.internal_topics import OFFSETS_TOPIC
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse

from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.core.transaction.requests import AddPartitions, Verified
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.requests.transaction_requests import for_version
from isthmus_broker.edge.transport.connection import Request


async def handle(node: Services, request: Request) -> None:
    """Neither the group nor the topic must exist."""
    body: AddOffsetsToTxnRequest = request.decode()
    error = ErrorCode.invalid_request if not body.transactional_id else await _add(node, body)
    refuse(request, for_version(request.header.api_version, error))


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error, or with none."""
    request.respond(AddOffsetsToTxnResponse(throttle_time=NO_THROTTLE, error_code=error))


async def _add(node: Services, body: AddOffsetsToTxnRequest) -> ErrorCode:
    index = coordinator_partition(body.group_id, node.groups.topic_partitions())
    place = TopicPartition(OFFSETS_TOPIC, index)
    call = AddPartitions(
        transactional_id=body.transactional_id,
        producer=ProducerId(body.producer_id, body.producer_epoch),
        partitions=frozenset({place}),
        version=0,
    )
    verified: Verified = await node.transactions.call(call)
    return verified.errors[place]
