"""Kafka's metadata records, as classes in the manner of kio: the fields have Kafka's types, and the wire library encodes them.

A field that was added in a later version of its record is marked with `since`, so that records of older logs are read as well.
"""

# No postponed annotations here: the codec reads the fields' types.
from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

OBSERVERS_TAG: Final = 10_000
"""The tagged field, far above Kafka's own, that lists the observers. Without observers a record equals Kafka's byte for byte."""


class _Entity:
    """The attributes that kio's codecs need in a class."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.nested
    __flexible__: ClassVar[bool] = True


class MetadataRecord(_Entity):
    """A record of the metadata log; its version is the newest, which metadata.version 4.3-IV0 writes."""

    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.data
    __api_key__: ClassVar[int]
    __version__: ClassVar[int]

    @property
    def written_version(self) -> int:
        """The version of this record instance."""
        return self.__version__


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint(_Entity):
    """The endpoint of a node."""

    name: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    port: int = field(metadata={"kafka_type": "uint16"})
    security_protocol: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange(_Entity):
    """The levels of a feature that a node supports."""

    name: str = field(metadata={"kafka_type": "string"})
    min_supported_version: int = field(metadata={"kafka_type": "int16"})
    max_supported_version: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    """A broker process registered; it stays fenced until it has caught up."""

    __api_key__: ClassVar[int] = 0
    __version__: ClassVar[int] = 4
    broker_id: int = field(metadata={"kafka_type": "int32"})
    is_migrating_zk_broker: bool = field(metadata={"kafka_type": "bool", "since": 2}, default=False)
    incarnation_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    endpoints: tuple[BrokerEndpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None = field(metadata={"kafka_type": "string"})
    fenced: bool = field(metadata={"kafka_type": "bool"}, default=True)
    in_controlled_shutdown: bool = field(metadata={"kafka_type": "bool", "since": 1}, default=False)
    log_dirs: tuple[UUID | None, ...] = field(metadata={"kafka_type": "uuid", "tag": 0, "since": 3}, default=())
    cordoned_log_dirs: tuple[UUID | None, ...] | None = field(
        metadata={"kafka_type": "uuid", "tag": 1, "since": 4}, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(MetadataRecord):
    """A broker was removed from the cluster."""

    __api_key__: ClassVar[int] = 1
    __version__: ClassVar[int] = 0
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(MetadataRecord):
    """A topic exists."""

    __api_key__: ClassVar[int] = 2
    __version__: ClassVar[int] = 0
    name: str = field(metadata={"kafka_type": "string"})
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(MetadataRecord):
    """A partition was created, or replaced by this description."""

    __api_key__: ClassVar[int] = 3
    __version__: ClassVar[int] = 2
    partition_id: int = field(metadata={"kafka_type": "int32"}, default=-1)
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    isr: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    removing_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    adding_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    leader: int = field(metadata={"kafka_type": "int32"}, default=-1)
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=0)
    leader_epoch: int = field(metadata={"kafka_type": "int32"}, default=-1)
    partition_epoch: int = field(metadata={"kafka_type": "int32"}, default=-1)
    directories: tuple[UUID | None, ...] = field(metadata={"kafka_type": "uuid", "since": 1})
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 1, "since": 2}, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 2, "since": 2}, default=None)
    observers: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": OBSERVERS_TAG}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(MetadataRecord):
    """A configuration of a resource was set, or removed when there is no value."""

    __api_key__: ClassVar[int] = 4
    __version__: ClassVar[int] = 0
    resource_type: int = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    name: str = field(metadata={"kafka_type": "string"})
    value: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(MetadataRecord):
    """Changes of a partition; a field that is not given did not change."""

    __api_key__: ClassVar[int] = 5
    __version__: ClassVar[int] = 2
    partition_id: int = field(metadata={"kafka_type": "int32"}, default=-1)
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    isr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 0}, default=None)
    leader: int = field(metadata={"kafka_type": "int32", "tag": 1}, default=-2)
    replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 2}, default=None)
    removing_replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 3}, default=None)
    adding_replicas: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 4}, default=None)
    leader_recovery_state: int = field(metadata={"kafka_type": "int8", "tag": 5}, default=-1)
    directories: tuple[UUID | None, ...] | None = field(
        metadata={"kafka_type": "uuid", "tag": 8, "since": 1}, default=None
    )
    eligible_leader_replicas: tuple[int, ...] | None = field(
        metadata={"kafka_type": "int32", "tag": 6, "since": 2}, default=None
    )
    last_known_elr: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": 7, "since": 2}, default=None)
    observers: tuple[int, ...] | None = field(metadata={"kafka_type": "int32", "tag": OBSERVERS_TAG}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord(MetadataRecord):
    """A broker was fenced (superseded by BrokerRegistrationChange; present in old logs)."""

    __api_key__: ClassVar[int] = 7
    __version__: ClassVar[int] = 0
    id: int = field(metadata={"kafka_type": "int32"})
    epoch: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord(MetadataRecord):
    """A broker was unfenced (superseded by BrokerRegistrationChange; present in old logs)."""

    __api_key__: ClassVar[int] = 8
    __version__: ClassVar[int] = 0
    id: int = field(metadata={"kafka_type": "int32"})
    epoch: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(MetadataRecord):
    """A topic was deleted, with its partitions and its configurations."""

    __api_key__: ClassVar[int] = 9
    __version__: ClassVar[int] = 0
    topic_id: UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord(MetadataRecord):
    """A delegation token was created or renewed."""

    __api_key__: ClassVar[int] = 10
    __version__: ClassVar[int] = 0
    owner: str = field(metadata={"kafka_type": "string"})
    requester: str = field(metadata={"kafka_type": "string"})
    renewers: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    issue_timestamp: int = field(metadata={"kafka_type": "int64"})
    max_timestamp: int = field(metadata={"kafka_type": "int64"})
    expiration_timestamp: int = field(metadata={"kafka_type": "int64"})
    token_id: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord(MetadataRecord):
    """A SCRAM credential of a user was set."""

    __api_key__: ClassVar[int] = 11
    __version__: ClassVar[int] = 0
    name: str = field(metadata={"kafka_type": "string"})
    mechanism: int = field(metadata={"kafka_type": "int8"})
    salt: bytes = field(metadata={"kafka_type": "bytes"})
    stored_key: bytes = field(metadata={"kafka_type": "bytes"})
    server_key: bytes = field(metadata={"kafka_type": "bytes"})
    iterations: int = field(metadata={"kafka_type": "int32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(MetadataRecord):
    """A feature was finalised at a level; level 0 removes it."""

    __api_key__: ClassVar[int] = 12
    __version__: ClassVar[int] = 0
    name: str = field(metadata={"kafka_type": "string"})
    feature_level: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity(_Entity):
    """Part of a quota's entity; no name means the default."""

    entity_type: str = field(metadata={"kafka_type": "string"})
    entity_name: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord(MetadataRecord):
    """A quota of a client entity was set or removed."""

    __api_key__: ClassVar[int] = 14
    __version__: ClassVar[int] = 0
    entity: tuple[QuotaEntity, ...]
    key: str = field(metadata={"kafka_type": "string"})
    value: float = field(metadata={"kafka_type": "float64"})
    remove: bool = field(metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    """The producer ids below this one are allocated."""

    __api_key__: ClassVar[int] = 15
    __version__: ClassVar[int] = 0
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"}, default=-1)
    next_producer_id: int = field(metadata={"kafka_type": "int64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    """Changes of a registered broker."""

    __api_key__: ClassVar[int] = 17
    __version__: ClassVar[int] = 3
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    fenced: int = field(metadata={"kafka_type": "int8", "tag": 0}, default=0)
    in_controlled_shutdown: int = field(metadata={"kafka_type": "int8", "tag": 1, "since": 1}, default=0)
    log_dirs: tuple[UUID | None, ...] = field(metadata={"kafka_type": "uuid", "tag": 2, "since": 2}, default=())
    cordoned_log_dirs: tuple[UUID | None, ...] | None = field(
        metadata={"kafka_type": "uuid", "tag": 3, "since": 3}, default=None
    )

    @property
    def written_version(self) -> int:
        """Kafka writes the lowest version that has all needed fields."""
        if self.cordoned_log_dirs is not None:
            return 3
        if self.log_dirs:
            return 2
        return 1 if self.in_controlled_shutdown else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord(MetadataRecord):
    """An access control entry exists."""

    __api_key__: ClassVar[int] = 18
    __version__: ClassVar[int] = 0
    id: UUID | None = field(metadata={"kafka_type": "uuid"})
    resource_type: int = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    pattern_type: int = field(metadata={"kafka_type": "int8"})
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: int = field(metadata={"kafka_type": "int8"})
    permission_type: int = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord(MetadataRecord):
    """An access control entry was removed."""

    __api_key__: ClassVar[int] = 19
    __version__: ClassVar[int] = 0
    id: UUID | None = field(metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord(MetadataRecord):
    """No effect; written by an idle controller, and with an upgrade of the quorum."""

    __api_key__: ClassVar[int] = 20
    __version__: ClassVar[int] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord(MetadataRecord):
    """The state of a migration from ZooKeeper; present in the logs of old clusters."""

    __api_key__: ClassVar[int] = 21
    __version__: ClassVar[int] = 0
    zk_migration_state: int = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord(MetadataRecord):
    """A SCRAM credential of a user was removed."""

    __api_key__: ClassVar[int] = 22
    __version__: ClassVar[int] = 0
    name: str = field(metadata={"kafka_type": "string"})
    mechanism: int = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord(MetadataRecord):
    """The records that follow take effect together, once the transaction ends."""

    __api_key__: ClassVar[int] = 23
    __version__: ClassVar[int] = 0
    name: str | None = field(metadata={"kafka_type": "string", "tag": 0}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord(MetadataRecord):
    """The records since the begin take effect."""

    __api_key__: ClassVar[int] = 24
    __version__: ClassVar[int] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord(MetadataRecord):
    """The records since the begin are discarded."""

    __api_key__: ClassVar[int] = 25
    __version__: ClassVar[int] = 0
    reason: str | None = field(metadata={"kafka_type": "string", "tag": 0}, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord(MetadataRecord):
    """A delegation token was removed."""

    __api_key__: ClassVar[int] = 26
    __version__: ClassVar[int] = 0
    token_id: str = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord(MetadataRecord):
    """A controller process registered."""

    __api_key__: ClassVar[int] = 27
    __version__: ClassVar[int] = 0
    controller_id: int = field(metadata={"kafka_type": "int32"})
    incarnation_id: UUID | None = field(metadata={"kafka_type": "uuid"})
    zk_migration_ready: bool = field(metadata={"kafka_type": "bool"})
    endpoints: tuple[BrokerEndpoint, ...]
    features: tuple[FeatureRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord(MetadataRecord):
    """Eligible leader replicas are cleared, of one topic or, with an empty name, of all."""

    __api_key__: ClassVar[int] = 28
    __version__: ClassVar[int] = 0
    topic_name: str = field(metadata={"kafka_type": "string"})


RECORD_TYPES: Final[dict[int, type[MetadataRecord]]] = {
    record.__api_key__: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}
