"""The two replication throttles of a node (KIP-73): for its leaders and for its followers."""

from typing import Any

from isthmus_model.clocks import MonotonicMs

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.replica.replica import Replica
from isthmus_broker.core.replica.replication_quota import UNLIMITED, ReplicationQuota, is_throttled

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"


class Throttles:
    """The throttles. In-sync replicas are never throttled: producers that wait for them would be slowed down too."""

    def __init__(self, config: NodeConfig) -> None:
        settings = config.values
        windows, seconds = settings["replication.quota.window.num"], settings["replication.quota.window.size.seconds"]
        assert isinstance(windows, int)
        assert isinstance(seconds, int)
        self._node_id = config.node_id
        self._sent = ReplicationQuota(windows, seconds * 1000)
        self._fetched = ReplicationQuota(windows, seconds * 1000)
        self.apply_config(config)

    def apply_config(self, config: NodeConfig) -> None:
        """Apply the configured rates."""
        for quota, name in ((self._sent, LEADER_RATE), (self._fetched, FOLLOWER_RATE)):
            rate = config.values[name]
            quota.limit(rate if isinstance(rate, int) else UNLIMITED)

    def holds_back_reader(self, replica: Replica[Any], replica_id: int, now_ms: MonotonicMs) -> bool:
        """Whether a follower gets no records of this partition for now."""
        if not self.is_leader_throttled(replica) or replica_id in replica.leadership.isr:
            return False
        return self._sent.is_exceeded(now_ms)

    def is_leader_throttled(self, replica: Replica[Any]) -> bool:
        """Whether bytes that this leader sends to followers are throttled."""
        log = replica.log
        setting = () if log is None else log.config.leader_replication_throttled_replicas
        return bool(setting) and is_throttled(setting, replica.index, self._node_id)

    def record_sent(self, size: int, now_ms: MonotonicMs) -> None:
        """Count bytes of throttled partitions sent to followers."""
        self._sent.record(size, now_ms)

    def holds_back_fetcher(self, replica: Replica[Any], now_ms: MonotonicMs) -> bool:
        """Whether this follower fetches nothing for now."""
        if not self.is_follower_throttled(replica) or self._node_id in replica.leadership.isr:
            return False
        return self._fetched.is_exceeded(now_ms)

    def is_follower_throttled(self, replica: Replica[Any]) -> bool:
        """Whether bytes that this follower fetches are throttled."""
        log = replica.log
        setting = () if log is None else log.config.follower_replication_throttled_replicas
        return bool(setting) and is_throttled(setting, replica.index, self._node_id)

    def record_fetched(self, size: int, now_ms: MonotonicMs) -> None:
        """Count bytes of throttled partitions fetched from leaders."""
        self._fetched.record(size, now_ms)
