"""The two replication throttles of a node (KIP-73): what its leaders send and what its followers fetch."""

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.replica.throttle import UNLIMITED, ReplicationQuota, is_throttled
from isthmus_broker.edge.replication.partition import Partition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


class Throttles:
    """Replicas in sync are never held back: whoever waits for them would be held back as well."""

    def __init__(self, config: NodeConfig, clock: MonotonicClock) -> None:
        self._clock = clock
        settings = config.values
        windows, seconds = settings["replication.quota.window.num"], settings["replication.quota.window.size.seconds"]
        assert isinstance(windows, int)
        assert isinstance(seconds, int)
        self._node_id = config.node_id
        self._leading = ReplicationQuota(windows, seconds * 1000)
        self._following = ReplicationQuota(windows, seconds * 1000)
        self.take_config(config)

    def take_config(self, config: NodeConfig) -> None:
        """Obey these rates from now on."""
        for quota, name in ((self._leading, LEADER_RATE), (self._following, FOLLOWER_RATE)):
            rate = config.values[name]
            quota.limit(rate if isinstance(rate, int) else UNLIMITED)

    def holds_back_reader(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower gets no records of this partition now."""
        if not self.is_leader_throttled(partition) or replica_id in partition.leadership.isr:
            return False
        return self._leading.is_exceeded(self._clock())

    def is_leader_throttled(self, partition: Partition) -> bool:
        """Whether what this leader sends to followers counts."""
        log = partition.log
        setting = () if log is None else log.config.leader_replication_throttled_replicas
        return bool(setting) and is_throttled(setting, partition.index, self._node_id)

    def sent(self, size: int) -> None:
        """So many bytes of throttled partitions go to followers."""
        self._leading.record(size, self._clock())

    def holds_back_fetcher(self, partition: Partition) -> bool:
        """Whether this follower asks for nothing now."""
        if not self.is_follower_throttled(partition) or self._node_id in partition.leadership.isr:
            return False
        return self._following.is_exceeded(self._clock())

    def is_follower_throttled(self, partition: Partition) -> bool:
        """Whether what this follower fetches counts."""
        log = partition.log
        setting = () if log is None else log.config.follower_replication_throttled_replicas
        return bool(setting) and is_throttled(setting, partition.index, self._node_id)

    def fetched(self, size: int) -> None:
        """So many bytes of throttled partitions came from leaders."""
        self._following.record(size, self._clock())
