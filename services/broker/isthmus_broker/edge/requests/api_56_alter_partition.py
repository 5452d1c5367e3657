"""AlterPartition: a leader changes the in-sync replicas of its partitions; since 3 each with its epoch (KIP-903)."""

from typing import Final

from isthmus_wire.entities import entity
from isthmus_wire.messages import decode_entity
from kio.schema.alter_partition.v2 import request as without_epochs
from kio.schema.alter_partition.v3 import request as newest

from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.partitions import alter_partition
from isthmus_broker.core.metadata.refusals import partition_not_altered
from isthmus_broker.edge.requests.controller_requests import decide_here
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

EPOCHS_SINCE: Final = 3
ANY_EPOCH: Final = -1

OPERATION = ControllerOperation(alter_partition, partition_not_altered)


async def handle(node: NodeServices, request: Request) -> None:
    """Replicas in the old version have no epoch and match any."""
    header = request.header
    if header.api_version >= EPOCHS_SINCE:
        body = request.decode()
    else:
        body = with_epochs(
            decode_entity(without_epochs.AlterPartitionRequest, bytes(request.frame), offset=header.size)
        )
    request.respond(await decide_here(node, body))


def with_epochs(body: without_epochs.AlterPartitionRequest) -> newest.AlterPartitionRequest:
    """Convert the request to the newest version."""
    topics = tuple(
        entity(
            newest.TopicData, topic_id=topic.topic_id, partitions=tuple(_with_epochs(part) for part in topic.partitions)
        )
        for topic in body.topics
    )
    return entity(newest.AlterPartitionRequest, broker_id=body.broker_id, broker_epoch=body.broker_epoch, topics=topics)


def _with_epochs(part: without_epochs.PartitionData) -> newest.PartitionData:
    return entity(
        newest.PartitionData,
        partition_index=part.partition_index,
        leader_epoch=part.leader_epoch,
        new_isr_with_epochs=tuple(
            entity(newest.BrokerState, broker_id=broker, broker_epoch=ANY_EPOCH) for broker in part.new_isr
        ),
        leader_recovery_state=part.leader_recovery_state,
        partition_epoch=part.partition_epoch,
    )
