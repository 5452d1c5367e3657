"""Puts the coordinators of a broker together: those of groups, and those of transactions with their markers and verifications."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from isthmus_model.clocks import Clocks
from isthmus_model.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.coordinator.runtime import Runtime
from isthmus_broker.core.group.view import ClusterView
from isthmus_broker.core.metadata.delta import Changes
from isthmus_broker.core.metadata.image import TRANSACTION_VERSION, ClusterImage
from isthmus_broker.core.transaction.config import TransactionConfig
from isthmus_broker.edge.assembly.format import random_uuid
from isthmus_broker.edge.controller.producer_ids import ProducerIds
from isthmus_broker.edge.coordinators.counts import GroupCounts, Rebalances, TransactionCounts, count_groups
from isthmus_broker.edge.coordinators.group_metadata import GroupMetadata
from isthmus_broker.edge.coordinators.host import CoordinatorHost
from isthmus_broker.edge.coordinators.marker_sender import MarkerSender
from isthmus_broker.edge.coordinators.marker_writer import MarkerWriter
from isthmus_broker.edge.coordinators.transactions import Transactions
from isthmus_broker.edge.coordinators.verifier import Verifier
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.replication.partition import Partition

_NO_VERSION: Final = 0


class Coordinators:
    """The hosts of all coordinator topics, and what they share."""

    def __init__(
        self,
        config: NodeConfig,
        clocks: Clocks,
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._config = config
        self._clocks = clocks
        self._image = image
        self._group_metadata = GroupMetadata(config)
        self._transaction_version = _NO_VERSION
        self._rebalances = Rebalances()
        self.groups: CoordinatorHost[ClusterView] = CoordinatorHost(
            OFFSETS_TOPIC,
            self._new_group_runtime,
            self._group_metadata.view,
            clocks,
            lambda: self._partition_count(OFFSETS_TOPIC, config.settings.offsets_topic_num_partitions),
            replicas.fail,
            on_note=self._rebalances.note,
        )
        host: CoordinatorHost[int] = CoordinatorHost(
            TRANSACTIONS_TOPIC,
            self._new_transaction_runtime,
            _NO_VERSION,
            clocks,
            lambda: self._partition_count(TRANSACTIONS_TOPIC, config.settings.transaction_state_log_num_partitions),
            replicas.fail,
            on_effect=lambda shard, effect: self.transactions.carry_out(self._sender, shard, effect),
            on_unload=lambda shard: self._sender.forget(shard),
        )
        self.transactions = Transactions(host, producer_ids)
        self.markers = MarkerWriter(replicas, self.groups, clocks)
        self._sender = MarkerSender(
            config.node_id,
            self.markers,
            replicas.address_of,
            image,
            config.settings.request_timeout_ms,
            self.transactions.report_written,
        )
        timeout_ms = config.settings.request_timeout_ms
        self.verifier = Verifier(
            config.node_id, self.transactions, replicas.address_of, image, timeout_ms, clocks.monotonic
        )
        self._hosts: dict[str, CoordinatorHost[Any]] = {host.topic: host for host in (self.groups, host)}

    def apply(self, changes: Changes, offset: int, config: NodeConfig) -> None:
        """Pass changes of the metadata to the shards."""
        if self._group_metadata.apply(changes, offset, config):
            self.groups.metadata_changed(self._group_metadata.view)
        version = changes.after.feature(TRANSACTION_VERSION)
        if version != self._transaction_version:
            self._transaction_version = version
            self.transactions.host.metadata_changed(version)
        for broker_id in sorted(_gone(changes)):
            self._sender.disconnect(broker_id)
            self.verifier.disconnect(broker_id)
        self._sender.metadata_changed()

    def leadership_changed(self, partition: Partition) -> None:
        """Load or unload the partition's shard."""
        if (host := self._hosts.get(partition.topic)) is not None:
            host.leadership_changed(partition)

    def replica_removed(self, partition: Partition) -> None:
        """Unload the partition's shard."""
        if (host := self._hosts.get(partition.topic)) is not None:
            host.unload(partition)

    def transaction_counts(self) -> TransactionCounts:
        """The transactions whose coordinator is this node."""
        from isthmus_broker.core.transaction.shard import TransactionShard

        shards = [shard for shard in self.transactions.host.shards() if isinstance(shard, TransactionShard)]
        states = Counter(
            transaction.state.kafka_name for shard in shards for transaction in shard.transactions.values()
        )
        refused = sum(shard.illegal_transitions for shard in shards)
        return TransactionCounts(
            states,
            refused,
            self._sender.without_leader,
            self.transactions.host.load_times.recent(self._clocks.monotonic()),
            self.verifier.verifications,
        )

    def group_counts(self) -> GroupCounts:
        """The groups whose coordinator is this node."""
        now, shards = self._clocks.now(), list(self.groups.shards())
        return GroupCounts(
            count_groups(shards, now),
            self._rebalances.by_type,
            {"active": len(shards), "loading": self.groups.loading},
            self.groups.load_times.recent(now.monotonic),
        )

    def stop(self) -> None:
        """Respond to pending requests, and close the connections."""
        for host in self._hosts.values():
            host.stop()
        self._sender.stop()
        self.verifier.stop()

    def _partition_count(self, topic: str, otherwise: int) -> int:
        current = self._image().topics.named(topic)
        return otherwise if current is None else len(current.partitions)

    def _new_group_runtime(self, view: ClusterView) -> Runtime[ClusterView]:
        from isthmus_broker.core.group.shard import GroupShard, refuse  # large, and many nodes never coordinate a group

        configs = self._group_metadata.configs
        return Runtime(
            lambda timers, outbox: GroupShard(timers, outbox, configs, random_uuid),
            refuse,
            view,
            write_timeout_ms=configs.broker.offsets_commit_timeout_ms,
        )

    def _new_transaction_runtime(self, view: int) -> Runtime[int]:
        from isthmus_broker.core.transaction.shard import TransactionShard, refuse

        config = transaction_config(self._config)
        runtime: Runtime[int] = Runtime(
            lambda timers, outbox: TransactionShard(timers, outbox, config, lambda: runtime.epoch),
            lambda request, _context, error: refuse(request, error),
            view,
            write_timeout_ms=self._config.settings.request_timeout_ms,
            trusts_log_end=False,
        )
        return runtime


def _gone(changes: Changes) -> set[int]:
    """Brokers that were fenced, unregistered or restarted."""
    return {
        broker_id
        for broker_id in changes.brokers
        if (before := changes.before.brokers.get(broker_id)) is not None
        and (
            (after := changes.after.brokers.get(broker_id)) is None
            or after.fenced
            or after.broker_epoch != before.broker_epoch
        )
    }


def transaction_config(config: NodeConfig) -> TransactionConfig:
    """The node's settings that apply to transactions."""
    return TransactionConfig(
        **{field.name: getattr(config.settings, field.name) for field in fields(TransactionConfig)}
    )
