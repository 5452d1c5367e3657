"""Images: replay of Kafka's own log, snapshots and back, history with revert and transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isthmus_broker.core.metadata.delta import changes_between
from isthmus_broker.core.metadata.history import ImageHistory
from isthmus_broker.core.metadata.image import EMPTY_IMAGE, ClusterImage, Resource, snapshot
from isthmus_broker.core.metadata.records import decode_record, encode_record
from isthmus_broker.core.metadata.replay import replay_all
from isthmus_broker.core.metadata.schema import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FeatureRange,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from isthmus_model.config_resources import ResourceType

from tests.unit.metadata.recording import LOG, SNAPSHOT, SNAPSHOT_END, recorded_values

A, B = UUID(int=1000), UUID(int=2000)


def recorded_log() -> list[tuple[int, MetadataRecord]]:
    return [(offset, decode_record(value)) for offset, value in recorded_values(LOG)]


def test_kafkas_log_and_kafkas_snapshot_make_the_same_image() -> None:
    from_log = replay_all(EMPTY_IMAGE, [record for offset, record in recorded_log() if offset < SNAPSHOT_END])
    from_snapshot = replay_all(EMPTY_IMAGE, [decode_record(value) for _, value in recorded_values(SNAPSHOT)])
    assert from_log == from_snapshot
    assert from_log.topics.ids.keys() >= {"alpha", "beta"}


def test_our_snapshot_holds_the_records_of_kafkas() -> None:
    theirs = [decode_record(value) for _, value in recorded_values(SNAPSHOT)]
    ours = list(snapshot(replay_all(EMPTY_IMAGE, theirs)))
    assert sorted(map(encode_record, ours)) == sorted(encode_record(features_by_name(record)) for record in theirs)
    assert [type(record) for record in ours] == [type(record) for record in theirs]


def features_by_name(record: MetadataRecord) -> MetadataRecord:
    """Kafka writes them in another order each time."""
    if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
        return replace(record, features=tuple(sorted(record.features, key=lambda feature: feature.name)))
    return record


def test_the_whole_recorded_log_replays() -> None:
    image = replay_all(EMPTY_IMAGE, [record for _, record in recorded_log()])
    assert sorted(image.topics.ids) == ["alpha", "beta"]
    assert len(image.topics.by_id[image.topics.ids["beta"]].partitions) == 4
    assert image.config(ResourceType.TOPIC, "beta") == {"min.insync.replicas": "2", "segment.ms": "77"}
    assert image.config(ResourceType.TOPIC, "gone") == {}
    assert image.config(ResourceType.GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert image.client_quotas == {(("client-id", None),): {"producer_byte_rate": 1024.0}}
    assert [acl.principal for acl in image.acls.values()] == ["User:bob"]
    assert list(image.scram) == [("alice", 1)]
    assert image.next_producer_id == 1000
    assert image.feature("metadata.version") == 30
    # The node shut down at the end: it is fenced, leads nothing, and is what may lead again.
    broker = image.brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.rack) == (True, True, "eu-west/a")
    partition = image.topics.by_id[image.topics.ids["alpha"]].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch, partition.partition_epoch) == (-1, (), 1, 1)
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((1,), (1,))


def partition(topic_id: UUID, index: int = 0, **given: Any) -> PartitionRecord:
    fields: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "isr": (1, 2),
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": 1,
        "leader_epoch": 5,
        "partition_epoch": 7,
        "directories": (None, None, None),
    }
    return PartitionRecord(partition_id=index, topic_id=topic_id, **{**fields, **given})


def broker(broker_id: int, **given: Any) -> RegisterBrokerRecord:
    fields: dict[str, Any] = {
        "incarnation_id": UUID(int=broker_id + 7000),
        "broker_epoch": broker_id * 10,
        "endpoints": (BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        "features": (FeatureRange(name="metadata.version", min_supported_version=30, max_supported_version=30),),
        "rack": None,
        "fenced": False,
        "log_dirs": (UUID(int=broker_id + 9000),),
    }
    return RegisterBrokerRecord(broker_id=broker_id, **{**fields, **given})


TOPIC_A: list[MetadataRecord] = [TopicRecord(name="a", topic_id=A), partition(A)]


def test_a_change_of_leader_starts_an_epoch_and_any_change_moves_the_partition_epoch() -> None:
    changes = [
        PartitionChangeRecord(partition_id=0, topic_id=A, isr=(2,), leader=2),
        PartitionChangeRecord(partition_id=0, topic_id=A, leader_recovery_state=1),
        PartitionChangeRecord(partition_id=0, topic_id=A, replicas=(2, 4), eligible_leader_replicas=(4,)),
        PartitionChangeRecord(partition_id=0, topic_id=A, leader=2),
    ]
    image = replay_all(EMPTY_IMAGE, [*TOPIC_A, *changes])
    assert image.topics.by_id[A].partitions[0] == partition(
        A,
        isr=(2,),
        leader=2,
        leader_epoch=7,
        partition_epoch=11,
        leader_recovery_state=1,
        replicas=(2, 4),
        directories=(None, None),
        eligible_leader_replicas=(4,),
    )


def test_clearing_eligible_leaders_of_one_topic_or_of_all() -> None:
    records = [
        TopicRecord(name="a", topic_id=A),
        partition(A, eligible_leader_replicas=(3,), last_known_elr=(2,)),
        TopicRecord(name="b", topic_id=B),
        partition(B, eligible_leader_replicas=(3,)),
    ]
    image = replay_all(EMPTY_IMAGE, [*records, ClearElrRecord(topic_name="a")])
    assert image.topics.by_id[A].partitions[0] == partition(A, partition_epoch=8)
    assert image.topics.by_id[B].partitions[0].eligible_leader_replicas == (3,)
    image = replay_all(image, [ClearElrRecord(topic_name="")])
    assert image.topics.by_id[B].partitions[0] == partition(B, partition_epoch=8)


def test_a_topic_of_the_same_name_may_be_made_again_in_one_run() -> None:
    records = [
        *TOPIC_A,
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"),
        RemoveTopicRecord(topic_id=A),
        TopicRecord(name="a", topic_id=B),
        partition(B),
    ]
    image = replay_all(EMPTY_IMAGE, records)
    assert dict(image.topics.ids) == {"a": B}
    assert image.configs == {}


def test_records_that_contradict_the_image_crash() -> None:
    image = replay_all(EMPTY_IMAGE, [broker(1), *TOPIC_A])
    wrong = [
        TopicRecord(name="a", topic_id=B),
        RemoveTopicRecord(topic_id=B),
        partition(B),
        PartitionChangeRecord(partition_id=1, topic_id=A),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=11),
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=10),
        EndTransactionRecord(),
    ]
    for record in wrong[:-1]:
        with pytest.raises(AssertionError):
            replay_all(image, [record])
    with pytest.raises(AssertionError):
        ImageHistory().append([wrong[-1]], 0)


def test_changes_between_images_are_published() -> None:
    before = replay_all(EMPTY_IMAGE, [broker(1), *TOPIC_A, FeatureLevelRecord(name="f", feature_level=1)])
    after = replay_all(
        before,
        [
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1),
            TopicRecord(name="b", topic_id=B),
            partition(B),
            partition(A, 1),
            ConfigRecord(resource_type=4, resource_name="", name="x", value="1"),
        ],
    )
    changes = changes_between(before, after)
    assert changes.brokers == {1}
    assert changes.topics_created == {B}
    assert changes.topics_deleted == frozenset()
    assert changes.partitions == {A: {1}, B: {0}}
    assert changes.configs == {Resource(4, "")}
    assert changes.features == frozenset()
    assert not changes.client_quotas
    back = changes_between(after, before)
    assert back.topics_created == frozenset()
    assert back.topics_deleted == {B}
    assert back.partitions == {A: {1}}


def test_a_run_that_leaves_topics_alone_shares_them() -> None:
    before = replay_all(EMPTY_IMAGE, TOPIC_A)
    after = replay_all(before, [FeatureLevelRecord(name="f", feature_level=1)])
    assert after.topics is before.topics


def test_uncommitted_records_are_visible_to_the_controller_only_and_can_be_reverted() -> None:
    history = ImageHistory()
    history.append([broker(1)], 3)
    history.append(TOPIC_A, 5)
    assert (history.latest_offset, history.committed_offset) == (5, -1)
    assert "a" in history.latest.topics.ids
    assert history.committed == EMPTY_IMAGE
    published = history.commit(4)
    assert published is not None
    assert published.offset == 3
    assert published.changes.brokers == {1}
    assert published.changes.topics_created == frozenset()
    assert history.commit(4) is None
    history.revert()
    assert history.latest is history.committed
    assert (history.latest_offset, "a" in history.latest.topics.ids) == (3, False)


def test_a_transaction_takes_effect_at_its_end() -> None:
    history = ImageHistory()
    history.append([BeginTransactionRecord(name="x"), *TOPIC_A], 2)
    assert (history.in_transaction, history.latest) == (True, EMPTY_IMAGE)
    history.append([FeatureLevelRecord(name="f", feature_level=1), EndTransactionRecord()], 4)
    assert (history.in_transaction, history.latest_offset) == (False, 4)
    assert (history.latest.feature("f"), "a" in history.latest.topics.ids) == (1, True)


def test_an_aborted_transaction_never_happened() -> None:
    history = ImageHistory()
    history.append([BeginTransactionRecord(name=None), *TOPIC_A], 2)
    history.append([AbortTransactionRecord(reason="why"), FeatureLevelRecord(name="f", feature_level=1)], 4)
    assert (history.latest.feature("f"), history.latest.topics.ids) == (1, {})


def test_subscribers_receive_the_same_changes_from_a_snapshot_as_from_the_log() -> None:
    history = ImageHistory()
    history.append([broker(1), *TOPIC_A], 5)
    history.commit(5)
    published = history.load_snapshot([broker(1), TopicRecord(name="b", topic_id=B), partition(B)], 90)
    assert published.changes.brokers == frozenset()
    assert published.changes.topics_deleted == {A}
    assert published.changes.partitions == {B: {0}}
    assert (history.latest_offset, history.committed_offset) == (90, 90)


names = st.text("abc.-_", min_size=1, max_size=6)
ids = st.integers(1, (1 << 128) - 1).map(lambda number: UUID(int=number))
numbers = st.integers(0, 2**31 - 1)
replica_lists = st.lists(numbers, min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def partitions(draw: st.DrawFn, topic_id: UUID, index: int) -> PartitionRecord:
    replicas = draw(replica_lists)
    some = st.lists(st.sampled_from(replicas), unique=True).map(tuple)
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=draw(some),
        removing_replicas=draw(some),
        adding_replicas=draw(some),
        leader=draw(st.sampled_from((-1, *replicas))),
        leader_recovery_state=draw(st.integers(0, 1)),
        leader_epoch=draw(numbers),
        partition_epoch=draw(numbers),
        directories=tuple(draw(ids) if draw(st.booleans()) else None for _ in replicas),
        eligible_leader_replicas=draw(some) or None,
        last_known_elr=draw(some) or None,
    )


@st.composite
def topics(draw: st.DrawFn) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    known = draw(st.dictionaries(names, ids, max_size=4))
    for name, topic_id in known.items():
        if topic_id not in list(known.values())[: list(known).index(name)]:
            records.append(TopicRecord(name=name, topic_id=topic_id))
            records += [draw(partitions(topic_id, index)) for index in range(draw(st.integers(1, 3)))]
    return records


others = st.one_of(
    st.builds(FeatureLevelRecord, name=names, feature_level=st.integers(1, 99)),
    st.builds(broker, st.integers(0, 5), rack=st.none() | names, cordoned_log_dirs=st.none() | st.tuples(ids)),
    st.builds(
        RegisterControllerRecord,
        controller_id=st.integers(0, 5),
        incarnation_id=ids,
        zk_migration_ready=st.booleans(),
        endpoints=st.just(()),
        features=st.just(()),
    ),
    st.builds(
        ConfigRecord,
        resource_type=st.sampled_from([2, 4, 16, 32]),
        resource_name=names,
        name=names,
        value=st.text(max_size=5),
    ),
    st.builds(
        ClientQuotaRecord,
        entity=st.dictionaries(st.sampled_from(["user", "client-id", "ip"]), st.none() | names, min_size=1).map(
            lambda parts: tuple(QuotaEntity(entity_type=t, entity_name=n) for t, n in parts.items())
        ),
        key=names,
        value=st.floats(allow_nan=False),
        remove=st.just(False),
    ),
    st.builds(
        AccessControlEntryRecord,
        id=ids,
        resource_type=st.integers(0, 5),
        resource_name=names,
        pattern_type=st.integers(0, 5),
        principal=names,
        host=names,
        operation=st.integers(0, 5),
        permission_type=st.integers(0, 5),
    ),
    st.builds(
        UserScramCredentialRecord,
        name=names,
        mechanism=st.integers(1, 2),
        salt=st.binary(max_size=3),
        stored_key=st.binary(max_size=3),
        server_key=st.binary(max_size=3),
        iterations=numbers,
    ),
    st.builds(
        DelegationTokenRecord,
        owner=names,
        requester=names,
        renewers=st.lists(names, max_size=2).map(tuple),
        issue_timestamp=numbers,
        max_timestamp=numbers,
        expiration_timestamp=numbers,
        token_id=names,
    ),
)


@settings(max_examples=150, deadline=None)
@given(topics(), st.lists(others, max_size=8), st.none() | numbers)
def test_an_image_written_as_a_snapshot_and_read_back_is_equal(
    topic_records: list[MetadataRecord], other_records: list[MetadataRecord], producer_id: int | None
) -> None:
    records = topic_records + other_records
    if producer_id is not None:
        records.append(ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=producer_id))
    image: ClusterImage = replay_all(EMPTY_IMAGE, records)
    written = [encode_record(record) for record in snapshot(image)]
    assert replay_all(EMPTY_IMAGE, map(decode_record, written)) == image
