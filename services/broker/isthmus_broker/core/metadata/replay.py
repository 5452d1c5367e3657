"""The effect of each record type; nothing else changes metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from isthmus_broker.core.metadata import schema
from isthmus_broker.core.metadata.delta import ClusterDelta, Edited
from isthmus_broker.core.metadata.image import (
    MIGRATING_DIRECTORY,
    Broker,
    ClusterImage,
    Partition,
    Resource,
)
from isthmus_broker.core.metadata.schema import MetadataRecord

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1
FENCE: Final = 1
UNFENCE: Final = -1
ENTER_CONTROLLED_SHUTDOWN: Final = 1


def replay_all(image: ClusterImage, records: Iterable[MetadataRecord]) -> ClusterImage:
    """The image after the records."""
    delta = ClusterDelta(image)
    for record in records:
        replay(delta, record)
    return delta.apply()


def replay(delta: ClusterDelta, record: MetadataRecord) -> None:
    """Replay a committed record. One that contradicts the image means a damaged log, and crashes."""
    _MUTATORS[type(record)](delta, record)


def _register_broker(delta: ClusterDelta, record: Broker) -> None:
    delta.brokers.set(record.broker_id, replace(record, features=_by_name(record.features)))


def _by_name(features: tuple[schema.FeatureRange, ...]) -> tuple[schema.FeatureRange, ...]:
    """Kafka writes features in varying order; an image has one order."""
    return tuple(sorted(features, key=lambda feature: feature.name))


def _unregister_broker(delta: ClusterDelta, record: schema.UnregisterBrokerRecord) -> None:
    _registered(delta, record.broker_id, record.broker_epoch)
    delta.brokers.drop(record.broker_id)


def _registered(delta: ClusterDelta, broker_id: int, epoch: int) -> Broker:
    broker = delta.brokers.get(broker_id)
    assert broker is not None, f"a record changes broker {broker_id}, which is not registered"
    assert broker.broker_epoch == epoch, (
        f"a record changes broker {broker_id} of epoch {epoch}, not {broker.broker_epoch}"
    )
    return broker


def _fence(delta: ClusterDelta, record: schema.FenceBrokerRecord) -> None:
    delta.brokers.set(record.id, replace(_registered(delta, record.id, record.epoch), fenced=True))


def _unfence(delta: ClusterDelta, record: schema.UnfenceBrokerRecord) -> None:
    delta.brokers.set(record.id, replace(_registered(delta, record.id, record.epoch), fenced=False))


def _change_broker(delta: ClusterDelta, record: schema.BrokerRegistrationChangeRecord) -> None:
    broker = _registered(delta, record.broker_id, record.broker_epoch)
    changed = replace(
        broker,
        fenced={FENCE: True, UNFENCE: False}.get(record.fenced, broker.fenced),
        in_controlled_shutdown=broker.in_controlled_shutdown
        or record.in_controlled_shutdown == ENTER_CONTROLLED_SHUTDOWN,
        log_dirs=record.log_dirs or broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs if record.cordoned_log_dirs is None else record.cordoned_log_dirs,
    )
    delta.brokers.set(record.broker_id, changed)


def _register_controller(delta: ClusterDelta, record: schema.RegisterControllerRecord) -> None:
    delta.controllers.set(record.controller_id, replace(record, features=_by_name(record.features)))


def _create_topic(delta: ClusterDelta, record: schema.TopicRecord) -> None:
    assert record.topic_id is not None, "a topic has an id"
    delta.create_topic(record.name, record.topic_id)


def _remove_topic(delta: ClusterDelta, record: schema.RemoveTopicRecord) -> None:
    assert record.topic_id is not None, "a topic has an id"
    delta.delete_topic(record.topic_id)


def _set_partition(delta: ClusterDelta, record: Partition) -> None:
    assert record.topic_id is not None, "a topic has an id"
    directories = record.directories or (MIGRATING_DIRECTORY,) * len(record.replicas)
    assert len(directories) == len(record.replicas), "every replica has a directory"
    whole = replace(
        record,
        directories=directories,
        eligible_leader_replicas=record.eligible_leader_replicas or None,
        last_known_elr=record.last_known_elr or None,
        observers=record.observers or None,
    )
    delta.partitions(record.topic_id).set(record.partition_id, whole)


def _change_partition(delta: ClusterDelta, record: schema.PartitionChangeRecord) -> None:
    assert record.topic_id is not None, "a topic has an id"
    partitions = delta.partitions(record.topic_id)
    partition = partitions.get(record.partition_id)
    assert partition is not None, f"a record changes partition {record.partition_id} of {record.topic_id}: none such"
    partitions.set(record.partition_id, merged(partition, record))


def merged(partition: Partition, change: schema.PartitionChangeRecord) -> Partition:
    """The partition after the change. A leader in the record, even the same one, starts a new leader epoch."""
    leads_anew = change.leader != NO_LEADER_CHANGE
    replicas = partition.replicas if change.replicas is None else change.replicas
    return replace(
        partition,
        replicas=replicas,
        directories=_directories(partition, change, replicas),
        isr=partition.isr if change.isr is None else change.isr,
        removing_replicas=_changed(partition.removing_replicas, change.removing_replicas),
        adding_replicas=_changed(partition.adding_replicas, change.adding_replicas),
        leader=change.leader if leads_anew else partition.leader,
        leader_epoch=partition.leader_epoch + leads_anew,
        partition_epoch=partition.partition_epoch + 1,
        leader_recovery_state=partition.leader_recovery_state
        if change.leader_recovery_state == NO_RECOVERY_CHANGE
        else change.leader_recovery_state,
        eligible_leader_replicas=_changed(partition.eligible_leader_replicas or (), change.eligible_leader_replicas)
        or None,
        last_known_elr=_changed(partition.last_known_elr or (), change.last_known_elr) or None,
        observers=_changed(partition.observers or (), change.observers) or None,
    )


def _changed(old: tuple[int, ...], new: tuple[int, ...] | None) -> tuple[int, ...]:
    return old if new is None else new


def _directories(
    partition: Partition, change: schema.PartitionChangeRecord, replicas: tuple[int, ...]
) -> tuple[UUID | None, ...]:
    if change.directories is not None:
        assert len(change.directories) == len(replicas), "every replica has a directory"
        return change.directories
    directories = dict(zip(partition.replicas, partition.directories, strict=True))
    return tuple(directories.get(replica) for replica in replicas)


def _clear_elr(delta: ClusterDelta, record: schema.ClearElrRecord) -> None:
    if record.topic_name:
        topic_id = delta.topic_ids.get(record.topic_name)
        assert topic_id is not None, f"a record clears topic {record.topic_name}, which does not exist"
        topic_ids = [topic_id]
    else:
        topic_ids = list(delta.topics.result())
    for topic_id in topic_ids:
        partitions = delta.partitions(topic_id)
        for index, partition in list(partitions.result().items()):
            if partition.eligible_leader_replicas or partition.last_known_elr:
                cleared = schema.PartitionChangeRecord(
                    partition_id=index, topic_id=topic_id, eligible_leader_replicas=(), last_known_elr=()
                )
                partitions.set(index, merged(partition, cleared))


def _set_config(delta: ClusterDelta, record: schema.ConfigRecord) -> None:
    resource = Resource(record.resource_type, record.resource_name)
    _set_or_drop(delta.configs, resource, record.name, record.value)


def _set_quota(delta: ClusterDelta, record: schema.ClientQuotaRecord) -> None:
    target = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
    _set_or_drop(delta.client_quotas, target, record.key, None if record.remove else record.value)


def _set_or_drop(edited: Edited[Any, Mapping[str, Any]], owner: Any, key: str, value: Any) -> None:
    """Set one of an owner's values, or remove it if there is none; an owner without values is removed."""
    values = dict(edited.get(owner) or {})
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
    if values:
        edited.set(owner, values)
    else:
        edited.drop(owner)


def _set_feature(delta: ClusterDelta, record: schema.FeatureLevelRecord) -> None:
    if record.feature_level == 0:
        delta.features.drop(record.name)
    else:
        delta.features.set(record.name, record.feature_level)


def _set_producer_ids(delta: ClusterDelta, record: schema.ProducerIdsRecord) -> None:
    previous = delta.producer_ids
    assert previous is None or record.next_producer_id > previous.next_producer_id, "producer ids are allocated once"
    delta.producer_ids = record


def _set_acl(delta: ClusterDelta, record: schema.AccessControlEntryRecord) -> None:
    assert record.id is not None, "an access control entry has an id"
    delta.acls.set(record.id, record)


def _remove_acl(delta: ClusterDelta, record: schema.RemoveAccessControlEntryRecord) -> None:
    assert record.id is not None, "an access control entry has an id"
    delta.acls.drop(record.id)


def _set_scram(delta: ClusterDelta, record: schema.UserScramCredentialRecord) -> None:
    delta.scram.set((record.name, record.mechanism), record)


def _remove_scram(delta: ClusterDelta, record: schema.RemoveUserScramCredentialRecord) -> None:
    delta.scram.drop((record.name, record.mechanism))


def _set_token(delta: ClusterDelta, record: schema.DelegationTokenRecord) -> None:
    delta.tokens.set(record.token_id, record)


def _remove_token(delta: ClusterDelta, record: schema.RemoveDelegationTokenRecord) -> None:
    delta.tokens.drop(record.token_id)


def _nothing(_delta: ClusterDelta, _record: MetadataRecord) -> None:
    """Ignore records without a lasting effect on the image; transactions are handled in `history`."""


_MUTATORS: Final[Mapping[type[MetadataRecord], Callable[[ClusterDelta, Any], None]]] = {
    schema.RegisterBrokerRecord: _register_broker,
    schema.UnregisterBrokerRecord: _unregister_broker,
    schema.TopicRecord: _create_topic,
    schema.PartitionRecord: _set_partition,
    schema.ConfigRecord: _set_config,
    schema.PartitionChangeRecord: _change_partition,
    schema.FenceBrokerRecord: _fence,
    schema.UnfenceBrokerRecord: _unfence,
    schema.RemoveTopicRecord: _remove_topic,
    schema.DelegationTokenRecord: _set_token,
    schema.UserScramCredentialRecord: _set_scram,
    schema.FeatureLevelRecord: _set_feature,
    schema.ClientQuotaRecord: _set_quota,
    schema.ProducerIdsRecord: _set_producer_ids,
    schema.BrokerRegistrationChangeRecord: _change_broker,
    schema.AccessControlEntryRecord: _set_acl,
    schema.RemoveAccessControlEntryRecord: _remove_acl,
    schema.NoOpRecord: _nothing,
    schema.ZkMigrationStateRecord: _nothing,
    schema.RemoveUserScramCredentialRecord: _remove_scram,
    schema.BeginTransactionRecord: _nothing,
    schema.EndTransactionRecord: _nothing,
    schema.AbortTransactionRecord: _nothing,
    schema.RemoveDelegationTokenRecord: _remove_token,
    schema.RegisterControllerRecord: _register_controller,
    schema.ClearElrRecord: _clear_elr,
}
