"""The effective settings of one node: typed, with listeners and roles resolved, and validated together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from isthmus_model.addresses import Address, split_host_and_port

from isthmus_broker.core.config.addresses import Voter, parse_bootstrap_servers, parse_connection_limits, parse_voters
from isthmus_broker.core.config.checks import ALL_LOG_DIRS, check_node
from isthmus_broker.core.config.definitions import BROKER_CONFIGS, DYNAMIC_ONLY_BROKER_CONFIGS
from isthmus_broker.core.config.definitions.broker_quorum import LINKER_ROLE
from isthmus_broker.core.config.definitions.own import METADATA_MIN_ISR, METADATA_REPLICATION
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.listeners import Listeners, resolve_listeners
from isthmus_broker.core.config.topic_config import topic_defaults
from isthmus_broker.core.config.values import Value

EMBEDDED_DEFAULTS: Final[Mapping[str, str]] = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""What a cluster of one broker needs; as in the server.properties that comes with Kafka."""
_TIER_DEFAULTS: Final[Mapping[str, str]] = {METADATA_REPLICATION: "1", METADATA_MIN_ISR: "1"}
"""What it needs for tiered storage."""
EMBEDDED_NODE_ID: Final = "1"
EMBEDDED_LISTENER: Final = "PLAINTEXT://127.0.0.1:9092"
EMBEDDED_CONTROLLER_LISTENER: Final = "CONTROLLER://127.0.0.1:9093"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The settings that a node uses, by the name of their key with underscores for dots."""

    add_partitions_to_txn_retry_backoff_max_ms: int
    add_partitions_to_txn_retry_backoff_ms: int
    auto_create_topics_enable: bool
    broker_heartbeat_interval_ms: int
    broker_rack: str | None
    broker_session_timeout_ms: int
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_socket_timeout_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_max_bytes_per_second: float
    log_dir_failure_timeout_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_idle_interval_ms: int
    node_id: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    remote_log_manager_copier_thread_pool_size: int
    remote_log_manager_task_interval_ms: int
    remote_log_storage_system_enable: bool
    replica_lag_time_max_ms: int
    request_timeout_ms: int
    server_max_startup_time_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node's settings in force, resolved from its layers; a change of a dynamic setting creates a new instance."""

    settings: NodeSettings
    layers: BrokerLayers
    values: Mapping[str, Value]
    """Every Kafka setting, typed, by its key."""
    topic_defaults: Mapping[str, Value]
    """Every topic setting, typed: the defaults for topics."""
    roles: frozenset[str]
    listeners: Listeners
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    voters: tuple[Voter, ...]
    bootstrap_servers: tuple[Address, ...]
    max_connections_per_ip_overrides: Mapping[str, int]

    @property
    def node_id(self) -> int:
        return self.settings.node_id

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def given(self) -> frozenset[str]:
        """The names of the settings in the configuration, without those that a standalone node adds."""
        texts = self.layers.static
        return frozenset(name for name, text in texts.items() if EMBEDDED_DEFAULTS.get(name) != text)

    @property
    def cordoned_log_dirs(self) -> frozenset[str]:
        """The log directories, as given in log.dirs, that get no new replicas."""
        named = _texts(self.values, "cordoned.log.dirs")
        return frozenset(self.log_dirs if ALL_LOG_DIRS in named else named)

    @property
    def socket_buffers(self) -> tuple[int, int]:
        """The send and receive buffers of sockets; -1 where the system chooses, as it does for every buffer that is not set."""
        given, settings = self.layers.effective(), self.settings
        return (
            settings.socket_send_buffer_bytes if "socket.send.buffer.bytes" in given else -1,
            settings.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in given else -1,
        )

    @property
    def is_linker(self) -> bool:
        return LINKER_ROLE in self.roles


def resolve_node(layers: BrokerLayers) -> NodeConfig:
    """The node's settings in force; ConfigRefused, with Kafka's message, for an invalid combination."""
    texts = layers.effective()
    values = {**BROKER_CONFIGS.parse(texts), **DYNAMIC_ONLY_BROKER_CONFIGS.parse(texts)}
    voters = parse_voters(_texts(values, "controller.quorum.voters"))
    listeners = resolve_listeners(values, texts, voters)
    log_dirs = _texts(values, "log.dirs") or _texts(values, "log.dir")
    metadata_log_dir = values["metadata.log.dir"]
    overrides = values["max.connections.per.ip.overrides"]
    assert isinstance(overrides, str)
    check_node(values, texts, listeners, voters, log_dirs)
    return NodeConfig(
        settings=_settings(values),
        layers=layers,
        values=values,
        topic_defaults=topic_defaults(values),
        roles=frozenset(_texts(values, "process.roles")),
        listeners=listeners,
        log_dirs=log_dirs,
        metadata_log_dir=metadata_log_dir if isinstance(metadata_log_dir, str) else log_dirs[0],
        voters=voters,
        bootstrap_servers=parse_bootstrap_servers(_texts(values, "controller.quorum.bootstrap.servers")),
        max_connections_per_ip_overrides=parse_connection_limits(overrides),
    )


def _settings(values: Mapping[str, Any]) -> NodeSettings:
    return NodeSettings(**{field.name: values[field.name.replace("_", ".")] for field in fields(NodeSettings)})


def _texts(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    assert value is None or isinstance(value, tuple)
    return value or ()


def with_embedded_defaults(given: Mapping[str, str], data_dir: str) -> dict[str, str]:
    """Settings of a node without roles: a standalone cluster on this machine with its data in `data_dir`.

    A configuration with `process.roles` is complete and is not changed.
    """
    if "process.roles" in given:
        return dict(given)
    listeners = given.get("listeners", EMBEDDED_LISTENER)
    if "CONTROLLER://" not in listeners:
        listeners = f"{listeners},{EMBEDDED_CONTROLLER_LISTENER}"
    node_id = given.get("node.id", given.get("broker.id", EMBEDDED_NODE_ID))
    controller = next(entry for entry in listeners.split(",") if "CONTROLLER://" in entry).partition("://")[2]
    address = split_host_and_port(controller)
    host = address.host if address is not None and address.host else "127.0.0.1"
    port = address.port if address is not None else 0
    embedded = {
        "process.roles": "broker,controller",
        "node.id": node_id,
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{node_id}@{f'[{host}]' if ':' in host else host}:{port}",
        "log.dirs": data_dir,
        **EMBEDDED_DEFAULTS,
        **(_TIER_DEFAULTS if given.get("remote.log.storage.system.enable", "").lower() == "true" else {}),
    }
    return {**embedded, **given, "listeners": listeners}
