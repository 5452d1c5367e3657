"""How a mirror topic becomes an ordinary topic, in one batch of records that needs neither the source nor a worker.

All partitions get one leader epoch above every epoch so far. A leader refuses batches of the source whose epoch is above its own
partition's, so the highest of those is an upper bound. The margin is KIP-1279's, for epochs of the source that consumers know of and that
no batch has. A leader that begins such an epoch aborts transactions that the source left open, and records the epoch before it accepts
clients' writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from isthmus_model.clocks import WallMs
from isthmus_wire.extensions.mirrors import MirrorState

from isthmus_broker.core.links.stop import Stop
from isthmus_broker.core.metadata.image import ClusterImage, Partition
from isthmus_broker.core.metadata.links import Mirror, mirror_records
from isthmus_broker.core.metadata.schema import MetadataRecord

EPOCH_MARGIN: Final = 10


def stopped(image: ClusterImage, mirror: Mirror, now_ms: WallMs) -> list[MetadataRecord]:
    """The records that stop it."""
    partitions = image.topics.by_id[mirror.topic_id].partitions
    epoch = max(partition.leader_epoch for partition in partitions.values()) + EPOCH_MARGIN
    after = replace(mirror, state=MirrorState.STOPPED, since_ms=now_ms, stop=Stop(len(partitions), epoch))
    raised = [raised_to(partition, epoch) for _, partition in sorted(partitions.items())]
    return [*mirror_records(image, after), *raised]


def raised_to(partition: Partition, leader_epoch: int) -> Partition:
    """The partition with the same leader in a later epoch: a whole record, because a change record can only increment the epoch."""
    assert leader_epoch > partition.leader_epoch, "leader epochs never decrease"
    return replace(partition, leader_epoch=leader_epoch, partition_epoch=partition.partition_epoch + 1)
