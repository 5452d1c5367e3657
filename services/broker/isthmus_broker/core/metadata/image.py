"""The cluster's metadata at one offset: an immutable image, made of the records that would rebuild it.

A part that Kafka describes in full by one record is held as that record: a broker is its registration with all later changes folded in, a
partition is its PartitionRecord. So an image writes itself as a snapshot, and nothing has two shapes.

The mappings are never changed after an image is made; `delta` makes the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.config_resources import ResourceType

from isthmus_broker.core.metadata.schema import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

NO_LEADER: Final = -1
METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"

# Directory ids with a meaning of their own; the zero id, which means none yet, is None in records.
LOST_DIRECTORY: Final = UUID(int=1)
MIGRATING_DIRECTORY: Final = UUID(int=2)
_RESERVED_IDS: Final = 100

Broker = RegisterBrokerRecord
Controller = RegisterControllerRecord
Partition = PartitionRecord
QuotaTarget = tuple[tuple[str, str | None], ...]
"""The entity of a quota: types and names, sorted by type; no name means the default."""


def is_reserved(directory: UUID | None) -> bool:
    return directory is None or directory.int < _RESERVED_IDS


class Resource(NamedTuple):
    type: int
    name: str


DEFAULT_BROKER: Final = Resource(ResourceType.BROKER, "")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: UUID
    partitions: Mapping[int, Partition]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    by_id: Mapping[UUID, Topic] = field(default_factory=dict)
    ids: Mapping[str, UUID] = field(default_factory=dict)

    def named(self, name: str) -> Topic | None:
        topic_id = self.ids.get(name)
        return None if topic_id is None else self.by_id[topic_id]

    def partition(self, topic_id: UUID, index: int) -> Partition | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(index)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    controllers: Mapping[int, Controller] = field(default_factory=dict)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: Mapping[Resource, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: Mapping[QuotaTarget, Mapping[str, float]] = field(default_factory=dict)
    producer_ids: ProducerIdsRecord | None = None
    acls: Mapping[UUID, AccessControlEntryRecord] = field(default_factory=dict)
    scram: Mapping[tuple[str, int], UserScramCredentialRecord] = field(default_factory=dict)
    tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=dict)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings of a resource; empty if it has none or does not exist."""
        return self.configs.get(Resource(resource_type, name), _NO_SETTINGS)

    def feature(self, name: str) -> int:
        return self.features.get(name, 0)

    @property
    def next_producer_id(self) -> int:
        return 0 if self.producer_ids is None else self.producer_ids.next_producer_id


EMPTY_IMAGE: Final = ClusterImage()
_NO_SETTINGS: Final[Mapping[str, str]] = {}


def is_active(broker: Broker | None) -> bool:
    """Whether the broker may lead and be in sync: registered, not fenced and not shutting down."""
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def has_online_directory(broker: Broker, directory: UUID | None) -> bool:
    """Whether the broker has the directory; an unassigned or moving one is assumed to exist."""
    if is_reserved(directory):
        return directory != LOST_DIRECTORY
    return directory in broker.log_dirs


def directory_of(partition: Partition, broker_id: int) -> UUID | None:
    """The directory of the partition on a broker which is one of its replicas."""
    return partition.directories[partition.replicas.index(broker_id)]


def snapshot(image: ClusterImage) -> Iterator[MetadataRecord]:
    """The records that rebuild the image, in the order Kafka writes them; the same image always gives the same records."""
    yield from _features(image)
    for _, broker in sorted(image.brokers.items()):
        yield broker
    for _, controller in sorted(image.controllers.items()):
        yield controller
    for name, topic_id in sorted(image.topics.ids.items()):
        yield TopicRecord(name=name, topic_id=topic_id)
        for _, partition in sorted(image.topics.by_id[topic_id].partitions.items()):
            yield partition
    for resource, settings in sorted(image.configs.items()):
        for key, value in sorted(settings.items()):
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=key, value=value)
    yield from _quotas(image)
    if image.producer_ids is not None:
        yield image.producer_ids
    for _, acl in sorted(image.acls.items()):
        yield acl
    for _, credential in sorted(image.scram.items()):
        yield credential
    for _, token in sorted(image.tokens.items()):
        yield token


def _features(image: ClusterImage) -> Iterator[MetadataRecord]:
    """metadata.version comes first: it says how the rest is written."""
    for name, level in sorted(image.features.items(), key=lambda feature: (feature[0] != METADATA_VERSION, feature[0])):
        yield FeatureLevelRecord(name=name, feature_level=level)


def _quotas(image: ClusterImage) -> Iterator[MetadataRecord]:
    for target, quotas in sorted(image.client_quotas.items(), key=lambda quota: [(t, n or "") for t, n in quota[0]]):
        entity = tuple(QuotaEntity(entity_type=kind, entity_name=name) for kind, name in target)
        for key, value in sorted(quotas.items()):
            yield ClientQuotaRecord(entity=entity, key=key, value=value, remove=False)
