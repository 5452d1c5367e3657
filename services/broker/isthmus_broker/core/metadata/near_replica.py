"""The replica a consumer should read a partition from, by its rack and the listener it connected to (KIP-392)."""

from typing import Any, NamedTuple

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.replica.replica import Replica
from isthmus_broker.core.replica.selector import Candidate, has_offset, preferred_replica


class NearReplica(NamedTuple):
    """Chooses for each partition of a fetch, on its leader."""

    image: ClusterImage
    is_enabled: bool
    rack: str
    listener: str

    def choose(self, replica: Replica[Any], offset: int) -> int | None:
        """The broker to read from, if another than this leader is nearer and has the offset."""
        leader, log = replica.leader, replica.log
        if not self.is_enabled or not self.rack or leader is None or log is None or not leader.progress:
            return None
        own = Candidate(replica.leadership.leader, self._rack(replica.leadership.leader), log.end_offset, 0)
        others = [
            Candidate(broker_id, self._rack(broker_id), progress.log_end, progress.last_caught_up_ms)
            for broker_id, progress in leader.progress.items()
            if has_offset(progress, offset) and self._is_reachable(broker_id)
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
