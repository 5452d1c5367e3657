"""The lifecycle of a broker: registration, unfencing, failure, shutdown, removal."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.metadata import brokers
from isthmus_broker.core.metadata.brokers import fence_dead_broker, fence_stale_brokers
from isthmus_broker.core.metadata.features import SUPPORTED
from isthmus_broker.core.metadata.producer_ids import first_id
from isthmus_broker.core.metadata.schema import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from isthmus_broker.core.metadata.sessions import Sessions
from isthmus_model.clocks import MonotonicMs
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.assign_replicas_to_dirs.v0 import request as assigned
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.controller_registration.v0 import request as controllers
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tests.unit.metadata.cluster import CLUSTER_ID, SESSION_MS, Cluster, directory, outcome


def registration(broker_id: int, **given: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": UUID(int=800 + broker_id),
        "listeners": (entity(Listener, name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        "features": features(),
        "rack": "eu-west/a",
        "log_dirs": (directory(broker_id),),
        **given,
    }
    return entity(BrokerRegistrationRequest, **fields)


def features(**levels: tuple[int, int]) -> tuple[Feature, ...]:
    ranges = {**SUPPORTED, **{name.replace("_", "."): value for name, value in levels.items()}}
    return tuple(
        entity(Feature, name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in ranges.items()
    )


def heartbeat(cluster: Cluster, broker_id: int, now_ms: int = 0, **given: Any) -> Any:
    return cluster.response_for_broker(heartbeat_of(cluster, broker_id, **given), now_ms)


def heartbeat_of(cluster: Cluster, broker_id: int, **given: Any) -> BrokerHeartbeatRequest:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "broker_epoch": cluster.image.brokers[broker_id].broker_epoch,
        "current_metadata_offset": cluster.history.latest_offset,
        "want_fence": False,
        "want_shut_down": False,
        **given,
    }
    return entity(BrokerHeartbeatRequest, **fields)


def steps_of(cluster: Cluster, request: Any, now_ms: int = 0) -> tuple[list[int], Any]:
    """The number of records of each step of a decision, and its response."""
    sizes, is_complete, response = [], False, None
    while not is_complete:
        result = cluster.decide(request, now_ms)
        cluster.append(result.records)
        sizes.append(len(result.records))
        is_complete, response = result.is_complete, result.response
    return sizes, response


def test_a_broker_registers_catches_up_and_serves() -> None:
    cluster = Cluster(())
    answer = cluster.response_for_broker(registration(1))
    assert (answer.error_code, answer.broker_epoch) == (ErrorCode.none, cluster.history.latest_offset)
    broker = cluster.image.brokers[1]
    assert (broker.fenced, broker.rack, broker.log_dirs) == (True, "eu-west/a", (directory(1),))
    behind = heartbeat(cluster, 1, current_metadata_offset=broker.broker_epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waiting = heartbeat(cluster, 1, want_fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    serving = heartbeat(cluster, 1)
    assert (serving.is_caught_up, serving.is_fenced, serving.should_shut_down) == (True, False, False)
    assert not cluster.image.brokers[1].fenced


def test_a_returning_broker_takes_over_partitions_without_a_leader() -> None:
    cluster = Cluster(())
    cluster.put_topic("a", (1,), leader=-1, isr=(), eligible_leader_replicas=(1,), last_known_elr=(1,))
    cluster.response_for_broker(registration(1))
    heartbeat(cluster, 1)
    partition = cluster.partition("a")
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (1, (1,), None)


def test_the_same_process_may_register_again() -> None:
    cluster = Cluster(())
    epoch = cluster.response_for_broker(registration(1)).broker_epoch
    heartbeat(cluster, 1)
    again = cluster.response_for_broker(registration(1, rack="eu-west/b"))
    assert (again.error_code, again.broker_epoch) == (ErrorCode.none, epoch)
    assert (cluster.image.brokers[1].fenced, cluster.image.brokers[1].rack) == (False, "eu-west/b")


def test_another_process_with_a_number_in_use_must_wait_for_the_session() -> None:
    cluster = Cluster(())
    cluster.response_for_broker(registration(1))
    heartbeat(cluster, 1, now_ms=100)
    other = registration(1, incarnation_id=UUID(int=9))
    early = cluster.response_for_broker(other, now_ms=100 + SESSION_MS - 1)
    assert early.error_code is ErrorCode.duplicate_broker_registration
    late = cluster.response_for_broker(other, now_ms=100 + SESSION_MS)
    assert (late.error_code, late.broker_epoch) == (ErrorCode.none, cluster.history.latest_offset)


@pytest.mark.parametrize(
    ("clean", "eligible"),
    [(True, (1,)), (False, None)],
)
def test_after_an_unclean_stop_a_broker_is_trusted_no_more(clean: bool, eligible: tuple[int, ...] | None) -> None:
    cluster = Cluster((1, 2), elr=True)
    cluster.put_topic("a", (1, 2), isr=(1,), leader=1)
    epoch = cluster.image.brokers[1].broker_epoch
    cluster.response_for_broker(registration(1, previous_broker_epoch=epoch if clean else -1), now_ms=SESSION_MS)
    partition = cluster.partition("a")
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, (), eligible)
    # The registration is the last record, and its offset is the epoch.
    assert cluster.image.brokers[1].broker_epoch == cluster.history.latest_offset


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.inconsistent_cluster_id),
        ({"is_migrating_zk_broker": True}, ErrorCode.broker_id_not_registered),
        ({"log_dirs": ()}, ErrorCode.invalid_registration),
        ({"log_dirs": (UUID(int=5),)}, ErrorCode.invalid_registration),
        ({"log_dirs": (directory(2), directory(2))}, ErrorCode.invalid_registration),
        ({"log_dirs": (directory(1),)}, ErrorCode.invalid_registration),
        ({"features": ()}, ErrorCode.invalid_registration),
        ({"features": features(metadata_version=(7, 29))}, ErrorCode.unsupported_version),
        ({"features": features(group_version=(0, 0))}, ErrorCode.unsupported_version),
    ],
)
def test_refused_registrations(given: dict[str, Any], code: ErrorCode) -> None:
    cluster = Cluster((1,))
    answer = cluster.response_for_broker(registration(2, **given))
    assert (answer.error_code, answer.broker_epoch) == (code, -1)
    assert list(cluster.image.brokers) == [1]


def test_a_heartbeat_of_an_older_life_is_stale() -> None:
    cluster = Cluster((1,))
    assert heartbeat(cluster, 1, broker_epoch=0).error_code is ErrorCode.stale_broker_epoch
    unknown = entity(
        BrokerHeartbeatRequest,
        broker_id=9,
        broker_epoch=0,
        current_metadata_offset=0,
        want_fence=False,
        want_shut_down=False,
    )
    assert cluster.response_for_broker(unknown).error_code is ErrorCode.stale_broker_epoch


def test_a_stale_broker_is_fenced_and_leads_nothing() -> None:
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1, 2))
    heartbeat(cluster, 2, now_ms=5_000)
    assert cluster.sessions.deadline() == SESSION_MS
    quiet = fence_stale_brokers(cluster.image, cluster.context, cluster.sessions, MonotonicMs(SESSION_MS - 1))
    assert quiet.records == ()
    result = fence_stale_brokers(cluster.image, cluster.context, cluster.sessions, MonotonicMs(SESSION_MS))
    assert [type(record) for record in result.records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    cluster.append(result.records)
    assert cluster.image.brokers[1].fenced
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))
    assert cluster.sessions.deadline() == 5_000 + SESSION_MS


def test_a_broker_that_was_let_go_may_come_back_at_once() -> None:
    cluster = Cluster((1, 2))
    assert heartbeat(cluster, 1, want_shut_down=True).should_shut_down
    assert not cluster.sessions.is_valid(1, cluster.image.brokers[1].broker_epoch, MonotonicMs(0))
    again = cluster.response_for_broker(registration(1, incarnation_id=UUID(int=99)))
    assert again.error_code is ErrorCode.none


def test_a_dead_broker_is_fenced_without_waiting_for_its_session() -> None:
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1, 2))
    epoch = cluster.image.brokers[1].broker_epoch
    for broker, stale in ((1, epoch + 1), (7, epoch)):
        assert fence_dead_broker(cluster.image, cluster.context, cluster.sessions, broker, stale).records == ()
    assert cluster.sessions.is_valid(1, epoch, MonotonicMs(0))
    result = fence_dead_broker(cluster.image, cluster.context, cluster.sessions, 1, epoch)
    cluster.append(result.records)
    assert not cluster.sessions.is_valid(1, epoch, MonotonicMs(0))
    assert cluster.image.brokers[1].fenced
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))
    assert fence_dead_broker(cluster.image, cluster.context, cluster.sessions, 1, epoch).records == ()


@pytest.mark.parametrize("dead", [False, True])
def test_a_broker_with_many_partitions_is_fenced_in_steps(monkeypatch: pytest.MonkeyPatch, dead: bool) -> None:
    """A fencing was one batch: beyond some 150,000 partitions raft refused it as too large, and the broker was never fenced."""
    monkeypatch.setattr(brokers, "PARTITIONS_PER_STEP", 10)
    cluster = Cluster((1, 2))
    for number in range(12):
        cluster.put_topic(f"alone{number}", (1,))
    for number in range(25):
        cluster.put_topic(f"t{number}", (1, 2))
    heartbeat(cluster, 2, now_ms=SESSION_MS)
    epoch, sizes = cluster.image.brokers[1].broker_epoch, []
    while not cluster.image.brokers[1].fenced:
        if dead:
            result = fence_dead_broker(cluster.image, cluster.context, cluster.sessions, 1, epoch)
        else:
            result = fence_stale_brokers(cluster.image, cluster.context, cluster.sessions, MonotonicMs(SESSION_MS))
        cluster.append(result.records)
        sizes.append(len(result.records))
    assert sizes == [10, 10, 10, 8]
    assert {cluster.partition(f"t{number}").leader for number in range(25)} == {2}
    assert {cluster.partition(f"alone{number}").leader for number in range(12)} == {-1}


def many(cluster: Cluster, replicas: tuple[int, ...], **given: Any) -> set[str]:
    """Add 25 partitions; returns their topics."""
    return {cluster.put_topic(f"t{number}", replicas, **given).name for number in range(25)}


def leaders(cluster: Cluster, topics: set[str]) -> set[int]:
    return {cluster.partition(topic).leader for topic in topics}


@pytest.fixture
def _ten_partitions_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "PARTITIONS_PER_STEP", 10)


@pytest.mark.usefixtures("_ten_partitions_per_step")
@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_with_many_partitions_registers_again_in_steps(clean: bool) -> None:
    """All its partitions were decided at once: 150,000 held up the controller for 4 s."""
    cluster = Cluster((1, 2))
    topics = many(cluster, (1, 2))
    heartbeat(cluster, 2, now_ms=SESSION_MS)
    epoch = cluster.image.brokers[1].broker_epoch
    again = registration(1, previous_broker_epoch=epoch if clean else -1)
    sizes, response = steps_of(cluster, again, SESSION_MS)
    assert sizes == [10, 10, 6]
    assert leaders(cluster, topics) == {2}
    assert response.broker_epoch == cluster.image.brokers[1].broker_epoch == cluster.history.latest_offset


@pytest.mark.usefixtures("_ten_partitions_per_step")
def test_a_broker_takes_over_many_partitions_in_steps() -> None:
    cluster = Cluster(())
    topics = many(cluster, (1,), leader=-1, isr=(), eligible_leader_replicas=(1,), last_known_elr=(1,))
    cluster.response_for_broker(registration(1))
    sizes, response = steps_of(cluster, heartbeat_of(cluster, 1))
    assert sizes == [11, 10, 5]
    assert leaders(cluster, topics) == {1}
    assert not response.is_fenced
    assert steps_of(cluster, heartbeat_of(cluster, 1))[0] == [0]


@pytest.mark.usefixtures("_ten_partitions_per_step")
def test_a_failed_directory_with_many_replicas_is_handled_in_steps() -> None:
    cluster = Cluster((2,))
    first, second = UUID(int=501), UUID(int=502)
    cluster.response_for_broker(registration(1, log_dirs=(first, second)))
    heartbeat(cluster, 1)
    topics = many(cluster, (1, 2), directories=(first, directory(2)))
    sizes, _ = steps_of(cluster, heartbeat_of(cluster, 1, offline_log_dirs=(first,), cordoned_log_dirs=(second,)))
    assert sizes == [10, 10, 7]
    assert leaders(cluster, topics) == {2}
    assert (cluster.image.brokers[1].log_dirs, cordoned(cluster)) == ((second,), (second,))


@pytest.mark.usefixtures("_ten_partitions_per_step")
@pytest.mark.parametrize(("replicas", "sizes"), [((1, 2), [11, 10, 5, 1]), ((2, 1), [10, 10, 6])])
def test_a_controlled_shutdown_takes_a_step_with_every_heartbeat(replicas: tuple[int, ...], sizes: list[int]) -> None:
    """A stopping broker gives up on a response that takes 2 s."""
    cluster = Cluster((1, 2))
    topics = many(cluster, replicas)
    steps = []
    while not cluster.image.brokers[1].fenced:
        heartbeat(cluster, 2)
        (size,), response = steps_of(cluster, heartbeat_of(cluster, 1, want_shut_down=True))
        steps.append(size)
        assert response.should_shut_down == response.is_fenced == cluster.image.brokers[1].fenced
    assert steps == sizes
    assert {cluster.partition(topic).isr for topic in topics} == {(2,)}


def test_sessions_that_ran_out_are_not_watched_any_more() -> None:
    cluster = Cluster((1, 2))
    heartbeat(cluster, 2, now_ms=5_000)
    cluster.sessions.forget_expired(MonotonicMs(SESSION_MS))
    assert cluster.sessions.deadline() == 5_000 + SESSION_MS
    assert cluster.sessions.expired(cluster.image, MonotonicMs(SESSION_MS)) == [1]


def test_a_new_controller_gives_every_broker_a_whole_session() -> None:
    cluster = Cluster((1, 2))
    sessions = Sessions(cluster.image, SESSION_MS, MonotonicMs(50_000))
    assert sessions.expired(cluster.image, MonotonicMs(50_000 + SESSION_MS - 1)) == []
    assert sessions.expired(cluster.image, MonotonicMs(50_000 + SESSION_MS)) == [1, 2]


def test_the_session_of_the_previous_controllers_broker_begins_with_its_last_message() -> None:
    cluster = Cluster((1, 2))
    sessions = Sessions(cluster.image, SESSION_MS, MonotonicMs(50_000))
    sessions.backdate(1, MonotonicMs(48_000))
    sessions.backdate(3, MonotonicMs(48_000))  # a controller that is not a broker
    assert sessions.expired(cluster.image, MonotonicMs(48_000 + SESSION_MS - 1)) == []
    assert sessions.expired(cluster.image, MonotonicMs(48_000 + SESSION_MS)) == [1]
    assert sessions.deadline() == 48_000 + SESSION_MS


@pytest.mark.parametrize(("contact_ms", "expires_ms"), [(1, SESSION_MS // 3), (60_000, SESSION_MS)])
def test_a_broker_has_time_for_its_first_heartbeat_to_a_new_controller(contact_ms: int, expires_ms: int) -> None:
    cluster = Cluster((1, 2))
    sessions = Sessions(cluster.image, SESSION_MS, MonotonicMs(50_000))
    sessions.backdate(1, MonotonicMs(contact_ms))
    assert sessions.deadline() == 50_000 + expires_ms


def test_a_broker_that_leads_stops_when_others_have_taken_over() -> None:
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1, 2))
    heartbeat(cluster, 2)
    stopping = heartbeat(cluster, 1, want_shut_down=True)
    assert (stopping.is_fenced, stopping.should_shut_down) == (False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))
    # Broker 2 has not read about it yet.
    assert not heartbeat(cluster, 1, want_shut_down=True).should_shut_down
    heartbeat(cluster, 2)
    done = heartbeat(cluster, 1, want_shut_down=True)
    assert (done.is_fenced, done.should_shut_down) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_the_only_broker_may_stop() -> None:
    cluster = Cluster((1,))
    cluster.put_topic("a", (1,))
    assert not heartbeat(cluster, 1, want_shut_down=True).should_shut_down
    assert heartbeat(cluster, 1, want_shut_down=True).should_shut_down
    partition = cluster.partition("a")
    assert (partition.leader, partition.eligible_leader_replicas, partition.last_known_elr) == (-1, (1,), (1,))


def test_a_broker_that_leads_nothing_stops_at_once() -> None:
    cluster = Cluster((1,))
    assert heartbeat(cluster, 1, want_shut_down=True).should_shut_down
    assert cluster.image.brokers[1].fenced


def test_a_failed_directory_takes_its_replicas_out_of_sync() -> None:
    cluster = Cluster(())
    first, second = UUID(int=501), UUID(int=502)
    cluster.response_for_broker(registration(1, log_dirs=(first, second)))
    heartbeat(cluster, 1)
    cluster.put_topic("a", (1,), directories=(first,))
    cluster.put_topic("b", (1,), directories=(second,))
    heartbeat(cluster, 1, offline_log_dirs=(first,))
    assert cluster.image.brokers[1].log_dirs == (second,)
    assert (cluster.partition("a").leader, cluster.partition("b").leader) == (-1, 1)


def assignment(cluster: Cluster, directory_id: UUID, *replicas: tuple[UUID, int]) -> Any:
    request = entity(
        assigned.AssignReplicasToDirsRequest,
        broker_id=1,
        broker_epoch=cluster.image.brokers[1].broker_epoch,
        directories=(
            entity(
                assigned.DirectoryData,
                id_=directory_id,
                topics=tuple(
                    entity(
                        assigned.TopicData,
                        topic_id=topic_id,
                        partitions=(entity(assigned.PartitionData, partition_index=index),),
                    )
                    for topic_id, index in replicas
                ),
            ),
        ),
    )
    return [topic.partitions[0].error_code for topic in cluster.response_to(request).directories[0].topics]


def test_a_broker_with_several_directories_reports_the_directories_of_its_replicas() -> None:
    cluster = Cluster((2,))
    first, second = UUID(int=501), UUID(int=502)
    cluster.response_for_broker(registration(1, log_dirs=(first, second)))
    heartbeat(cluster, 1)
    a = cluster.put_topic("a", (1,), directories=(None,)).id
    b = cluster.put_topic("b", (2,)).id
    assert assignment(cluster, first, (a, 0), (a, 9), (b, 0), (UUID(int=3), 0)) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
    ]
    assert (cluster.partition("a").directories, cluster.partition("a").leader) == ((first,), 1)
    # A directory that the controller knows to have failed takes the replica with it.
    heartbeat(cluster, 1, offline_log_dirs=(second,))
    assert assignment(cluster, second, (a, 0)) == [ErrorCode.none]
    assert (cluster.partition("a").directories, cluster.partition("a").leader) == ((second,), -1)


def test_cordoned_directories_are_written_when_they_change() -> None:
    cluster = Cluster((1,))
    heartbeat(cluster, 1, cordoned_log_dirs=())
    offset = cluster.history.latest_offset
    heartbeat(cluster, 1, cordoned_log_dirs=())
    assert (cluster.history.latest_offset, cordoned(cluster)) == (offset, ())
    heartbeat(cluster, 1, cordoned_log_dirs=(directory(1),))
    assert (cluster.history.latest_offset, cordoned(cluster)) == (offset + 1, (directory(1),))


def cordoned(cluster: Cluster) -> tuple[UUID | None, ...] | None:
    return cluster.image.brokers[1].cordoned_log_dirs


def test_a_broker_leaves_for_good() -> None:
    cluster = Cluster((1, 2))
    cluster.put_topic("a", (1, 2))
    assert outcome(cluster.response_to(entity(UnregisterBrokerRequest, broker_id=1))) == (ErrorCode.none, None)
    assert list(cluster.image.brokers) == [2]
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))
    assert outcome(cluster.response_to(entity(UnregisterBrokerRequest, broker_id=1))) == (
        ErrorCode.broker_id_not_registered,
        "Broker ID 1 is not currently registered",
    )


def test_producer_ids_are_given_in_blocks_and_once() -> None:
    cluster = Cluster((1,))
    request = entity(AllocateProducerIdsRequest, broker_id=1, broker_epoch=cluster.image.brokers[1].broker_epoch)
    blocks = [cluster.response_to(request) for _ in range(2)]
    first = first_id(cluster.context.cluster_id)
    assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
        (first, 1000),
        (first + 1000, 1000),
    ]
    stale = cluster.response_to(entity(AllocateProducerIdsRequest, broker_id=1, broker_epoch=0))
    assert stale.error_code is ErrorCode.stale_broker_epoch


def test_clusters_number_their_producers_apart() -> None:
    first, second = first_id("cluster-a"), first_id("cluster-b")
    assert abs(first - second) >= 2**32
    assert min(first, second) >= 0
    assert max(first, second) + 2**32 < 2**63


def test_a_controller_registers() -> None:
    cluster = Cluster((1,))
    listener = entity(controllers.Listener, name="CONTROLLER", host="h", port=9093, security_protocol=0)
    request = entity(
        controllers.ControllerRegistrationRequest,
        controller_id=1,
        incarnation_id=UUID(int=4),
        zk_migration_ready=False,
        listeners=(listener,),
        features=(),
    )
    assert outcome(cluster.response_to(request)) == (ErrorCode.none, None)
    assert cluster.image.controllers[1].endpoints[0].port == 9093
