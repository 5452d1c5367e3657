"""The replica a consumer should read a partition from, by its rack and the listener it came by (KIP-392)."""

from typing import NamedTuple

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.replica.selector import Candidate, holds, preferred_replica
from isthmus_broker.edge.replication.partition import Partition


class NearReplica(NamedTuple):
    """Asked by the leader for each partition."""

    image: ClusterImage
    is_enabled: bool
    rack: str
    listener: str

    def choose(self, partition: Partition, offset: int) -> int | None:
        """The broker to go to, if another than this leader stands nearer and holds the offset."""
        leader, log = partition.leader, partition.log
        if not self.is_enabled or not self.rack or leader is None or log is None or not leader.progress:
            return None
        own = Candidate(partition.leadership.leader, self._rack(partition.leadership.leader), log.end_offset, 0)
        others = [
            Candidate(replica, self._rack(replica), progress.log_end, progress.last_caught_up_ms)
            for replica, progress in leader.progress.items()
            if holds(progress, offset) and self._is_reachable(replica)
        ]
        return preferred_replica(self.rack, own, others)

    def _rack(self, broker_id: int) -> str | None:
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def _is_reachable(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return (
            broker is not None
            and not broker.fenced
            and any(endpoint.name == self.listener for endpoint in broker.endpoints)
        )
