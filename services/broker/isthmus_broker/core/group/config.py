"""The group coordinator's configuration, with Kafka's names (dots and `ms` as in the key), defaults and meaning.

The edge validates and owns the values; a change reaches every shard through the one `GroupConfigs` they share.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

INT_MAX: Final = 2**31 - 1


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: the conversions that a joining or leaving member may cause."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The broker's values. A field's name is Kafka's key with underscores."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = INT_MAX
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_max_size: int = INT_MAX
    # Names of `assign.ASSIGNORS`; the first is the default.
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_num_standby_replicas: int = 0
    group_streams_max_size: int = INT_MAX
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_retention_check_interval_ms: int = 600_000

    @property
    def offsets_retention_ms(self) -> int:
        """How long an offset without active members is retained."""
        return self.offsets_retention_minutes * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOverrides:
    """The settings of a group's own config resource; None uses the broker's value."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None
    streams_session_timeout_ms: int | None = None
    streams_heartbeat_interval_ms: int | None = None
    streams_assignment_interval_ms: int | None = None
    streams_initial_rebalance_delay_ms: int | None = None
    streams_num_standby_replicas: int | None = None


NO_OVERRIDES: Final = GroupOverrides()


@dataclass(slots=True)
class GroupConfigs:
    """The current values, shared by all shards of a broker; the edge replaces them when they change."""

    broker: GroupConfig = field(default_factory=GroupConfig)
    groups: dict[str, GroupOverrides] = field(default_factory=dict)

    def consumer_session_timeout_ms(self, group_id: str) -> int:
        """The session timeout of members of this consumer group."""
        own = self.groups.get(group_id, NO_OVERRIDES).consumer_session_timeout_ms
        return self.broker.group_consumer_session_timeout_ms if own is None else own

    def consumer_heartbeat_interval_ms(self, group_id: str) -> int:
        """The heartbeat interval assigned to members of this consumer group."""
        own = self.groups.get(group_id, NO_OVERRIDES).consumer_heartbeat_interval_ms
        return self.broker.group_consumer_heartbeat_interval_ms if own is None else own

    def consumer_assignment_interval_ms(self, group_id: str) -> int:
        """The minimum interval between two target assignments of this group (KIP-1263)."""
        own = self.groups.get(group_id, NO_OVERRIDES).consumer_assignment_interval_ms
        return self.broker.group_consumer_assignment_interval_ms if own is None else own

    def streams_session_timeout_ms(self, group_id: str) -> int:
        """The session timeout of members of this streams group."""
        own = self.groups.get(group_id, NO_OVERRIDES).streams_session_timeout_ms
        return self.broker.group_streams_session_timeout_ms if own is None else own

    def streams_heartbeat_interval_ms(self, group_id: str) -> int:
        """The heartbeat interval assigned to members of this streams group."""
        own = self.groups.get(group_id, NO_OVERRIDES).streams_heartbeat_interval_ms
        return self.broker.group_streams_heartbeat_interval_ms if own is None else own

    def streams_assignment_interval_ms(self, group_id: str) -> int:
        """The minimum interval between two target assignments of this group (KIP-1263)."""
        own = self.groups.get(group_id, NO_OVERRIDES).streams_assignment_interval_ms
        return self.broker.group_streams_assignment_interval_ms if own is None else own

    def streams_initial_rebalance_delay_ms(self, group_id: str) -> int:
        """How long the first assignment of this group waits for further members."""
        own = self.groups.get(group_id, NO_OVERRIDES).streams_initial_rebalance_delay_ms
        return self.broker.group_streams_initial_rebalance_delay_ms if own is None else own

    def streams_num_standby_replicas(self, group_id: str) -> int:
        """How many standbys each stateful task of this group gets, as far as there are processes for them."""
        own = self.groups.get(group_id, NO_OVERRIDES).streams_num_standby_replicas
        return self.broker.group_streams_num_standby_replicas if own is None else own


# Members of one classic group that received a member id and have not joined with it yet (KIP-394). Kafka has no such bound; beyond
# it a join is refused with GROUP_MAX_SIZE_REACHED.
PENDING_MEMBERS_MAX: Final = 10_000

# A new member may need this long from its first JoinGroup to the end of the rebalance: its session starts after that.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000

# Regular expressions are not resolved again within this time.
REGEX_REFRESH_MIN_INTERVAL_MS: Final = 10_000

# A timer whose records could not be appended runs again after this time.
TIMER_RETRY_MS: Final = 500

# The offsets of a deleted topic are removed again after this time if their tombstones could not be appended.
OFFSETS_REMOVAL_RETRY_MS: Final = 5_000
