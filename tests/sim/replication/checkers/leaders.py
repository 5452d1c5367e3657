"""At most one leader in each leader epoch, and no broker returns to an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.replica.leadership import Leadership

from tests.sim.world import Violation

if TYPE_CHECKING:
    from tests.sim.replication.broker import SimPartition


class OneLeaderPerEpoch:
    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int], int] = {}
        self._lives: dict[tuple[str, int], tuple[int, int]] = {}

    def leads(self, partition: SimPartition, leadership: Leadership) -> None:
        topic, epoch, broker = partition.topic, leadership.leader_epoch, partition.broker
        first = self._leaders.setdefault((topic, epoch), broker.id)
        if first != broker.id:
            raise Violation(f"brokers {first} and {broker.id} both lead {topic} in epoch {epoch}")
        life, last = self._lives.get((topic, broker.id), (broker.life, epoch))
        if life == broker.life and epoch < last:
            raise Violation(f"broker {broker.id} leads {topic} in epoch {epoch} after {last}")
        self._lives[topic, broker.id] = broker.life, epoch

    def committed(self, before: ClusterImage, after: ClusterImage) -> None:
        """Committed epochs only increase."""
        for topic_id, topic in before.topics.by_id.items():
            was, now = topic.partitions[0], after.topics.by_id[topic_id].partitions[0]
            if now is not was and (
                now.leader_epoch < was.leader_epoch
                or now.partition_epoch < was.partition_epoch
                or (now.leader != was.leader and now.leader_epoch == was.leader_epoch)
            ):
                raise Violation(f"the epochs of {topic.name} fall, or stay for another leader: {was} became {now}")
