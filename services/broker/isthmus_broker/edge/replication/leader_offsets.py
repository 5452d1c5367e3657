"""Looks up a leader's log start and log end, for a follower whose fetch offset is not in the leader's log."""

from typing import Any, Final

from isthmus_client.connection import Connection
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from isthmus_broker.edge.replication.partition import Partition

EARLIEST: Final = -2
LATEST: Final = -1


async def leader_offsets(
    connection: Connection, node_id: int, partition: Partition, leader_epoch: int
) -> tuple[int, int] | None:
    """The log start and log end of the leader; None if it refuses. Raises ClientError."""
    offsets = []
    for timestamp in (EARLIEST, LATEST):
        part = entity(
            ListOffsetsPartition,
            partition_index=partition.index,
            current_leader_epoch=leader_epoch,
            timestamp=timestamp,
        )
        request = entity(
            ListOffsetsRequest,
            replica_id=node_id,
            isolation_level=0,
            topics=(entity(ListOffsetsTopic, name=partition.topic, partitions=(part,)),),
            timeout=NO_THROTTLE,  # for remote storage, which does not exist yet
        )
        response: Any = await connection.request(ApiKey.LIST_OFFSETS, request)
        result = response.topics[0].partitions[0]
        if result.error_code is not ErrorCode.none:
            return None
        offsets.append(int(result.offset))
    start, end = offsets
    return start, end
