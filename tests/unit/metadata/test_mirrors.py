"""Mirror topics as records of the metadata log: created, altered, stopped."""

from __future__ import annotations

from typing import Any

import pytest
from isthmus_broker.core.links.stop import Stop
from isthmus_broker.core.metadata.broker_configs import source_refusals
from isthmus_broker.core.metadata.link_queries import describe_mirrors
from isthmus_broker.core.metadata.links import mirror_of
from isthmus_broker.core.metadata.mirror_requests import LEADER_EPOCH_MAX
from isthmus_broker.core.metadata.result import ControllerError
from isthmus_broker.core.metadata.schema import ConfigRecord, PartitionRecord
from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import AlterLinkRequest
from isthmus_wire.extensions.mirrors import (
    DescribeMirrorsRequest,
    EpochFloor,
    FloorsOfTopic,
    MirrorAction,
    MirrorState,
    RaiseLeaderEpochsRequest,
)
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import DeleteTopicsRequest
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.request import AlterConfigsResource as ReplacedResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from tests.unit.metadata.cluster import Cluster, creation, new_topic, refused
from tests.unit.metadata.links import (
    NOW,
    alter,
    alteration,
    configs,
    linked,
    mirror,
    new_link,
    new_mirror,
    request_response,
    said,
)

Do, State = MirrorAction, MirrorState


def floors(topic: str, at_least: dict[int, int]) -> RaiseLeaderEpochsRequest:
    partitions = tuple(EpochFloor(index=index, at_least=epoch) for index, epoch in at_least.items())
    return RaiseLeaderEpochsRequest(topics=(FloorsOfTopic(name=topic, partitions=partitions),))


def delete(cluster: Cluster, topic: str) -> None:
    cluster.response_to(DeleteTopicsRequest(topic_names=(topic,), timeout=NO_THROTTLE))


def test_a_mirror_has_its_sources_partitions_its_prefix_and_what_is_always_synced() -> None:
    cluster = Cluster()
    request_response(cluster, new_link(settings={"cluster.link.prefix": "w."}))
    there = {"max.message.bytes": "5000", "retention.ms": "77", "min.insync.replicas": "1", "unheard.of": "x"}
    response = request_response(cluster, new_mirror(partitions=3, source_configs=there, configs={"flush.ms": "9"}))
    assert (said(response), response.topic) == ((ErrorCode.none, None), "w.orders")
    topic = cluster.topic("w.orders")
    assert (topic.id, len(topic.partitions)) == (response.topic_id, 3)
    assert cluster.image.config(ResourceType.TOPIC, "w.orders") == {
        "max.message.bytes": "5000",
        "retention.ms": "77",
        "flush.ms": "9",
    }
    made = mirror(cluster, "w.orders")
    assert (made.source_topic, made.state, made.since_ms) == ("orders", State.ACTIVE, NOW)


@pytest.mark.parametrize(
    ("request_fields", "code", "why"),
    [
        ({"link_name": "east"}, ErrorCode.resource_not_found, "There is no link 'east'."),
        ({"topic": "orders"}, ErrorCode.topic_already_exists, "Topic 'orders' already exists."),
        ({"topic": "b", "mirror_topic": "c"}, ErrorCode.invalid_request, "names the mirror of 'b' 'b', not 'c'."),
        ({"topic": "__consumer_offsets"}, ErrorCode.invalid_topic_exception, "internal topic"),
        ({"topic": "__cluster_metadata"}, ErrorCode.invalid_topic_exception, "internal topic"),
        ({"topic": "b", "source": None}, ErrorCode.invalid_request, "send it to a broker"),
        ({"topic": "b", "configs": {"cleanup.policy": "compact"}}, ErrorCode.invalid_config, "always has its source's"),
        ({"topic": "b", "configs": {"nonsense": "1"}}, ErrorCode.invalid_config, "Unknown topic config name"),
        ({"topic": "b", "replication_factor": 2}, ErrorCode.invalid_replication_factor, "Unable to replicate"),
        ({"topic": "b", "partitions": 10_001}, ErrorCode.policy_violation, "at most 10000 partitions"),
    ],
)
def test_what_no_mirror_is_made_of(request_fields: dict[str, Any], code: ErrorCode, why: str) -> None:
    cluster = linked()
    before = cluster.image
    error, message = said(request_response(cluster, new_mirror(**request_fields)))
    assert error is code
    assert message is not None
    assert why in message
    assert cluster.image is before


def test_nothing_happens_when_a_mirror_is_only_checked() -> None:
    cluster = linked()
    assert said(request_response(cluster, new_mirror("b", validate_only=True))) == (ErrorCode.none, None)
    assert "b" not in cluster.image.topics.ids


def test_a_mirror_is_deleted_with_its_topic_and_a_new_topic_is_none() -> None:
    cluster = linked()
    delete(cluster, "orders")
    assert not [resource for resource in cluster.image.configs if resource.name == "mirror/orders"]
    cluster.response_to(creation(new_topic("orders")))
    assert mirror_of(cluster.image, "orders") is None


def test_what_is_left_of_a_topic_that_kafkas_controller_deleted_is_no_mirror() -> None:
    cluster = linked()
    left = [
        ConfigRecord(resource_type=0, resource_name="mirror/orders", name=key, value=value)
        for key, value in cluster.image.config(0, "mirror/orders").items()
    ]
    delete(cluster, "orders")
    cluster.append(left)
    assert mirror_of(cluster.image, "orders") is None
    assert said(request_response(cluster, new_mirror())) == (ErrorCode.none, None)
    assert mirror(cluster).topic_id == cluster.topic("orders").id


def test_failover_is_one_batch_that_stops_the_topic_and_raises_all_its_epochs() -> None:
    cluster = linked(1, 2, partitions=2)
    request_response(cluster, floors("orders", {1: 7}))
    request = alteration(Do.FAILOVER, "orders")
    records = cluster.decide(request, NOW + 5).records
    assert [type(record) for record in records] == [ConfigRecord] * 4 + [PartitionRecord] * 2
    before = [cluster.partition("orders", index) for index in range(2)]
    cluster.append(records)
    for index, old in enumerate(before):
        new = cluster.partition("orders", index)
        assert (new.leader, new.isr, new.leader_epoch) == (old.leader, old.isr, 17)
        assert new.partition_epoch == old.partition_epoch + 1
    assert mirror(cluster).stop == Stop(partitions=2, leader_epoch=17)
    assert (mirror(cluster).state, mirror(cluster).since_ms) == (State.STOPPED, NOW + 5)
    assert alter(cluster, Do.FAILOVER) == (ErrorCode.none, None)
    assert cluster.partition("orders").leader_epoch == 17


def test_promotion_ends_when_the_worker_says_so() -> None:
    cluster = linked()
    assert alter(cluster, Do.PROMOTE) == (ErrorCode.none, None)
    assert mirror(cluster).state is State.PENDING_STOPPED
    assert cluster.partition("orders").leader_epoch == 0
    assert alter(cluster, Do.FINISH_PROMOTION) == (ErrorCode.none, None)
    assert mirror(cluster).state is State.STOPPED
    assert cluster.partition("orders").leader_epoch == 10


def test_what_fails_says_why_until_it_is_resumed() -> None:
    cluster = linked()
    assert alter(cluster, Do.FAIL, error="UNEXPECTED_TRUNCATION", mirror_error_message="x" * 2_000)[0] is ErrorCode.none
    failed = mirror(cluster)
    assert (failed.state, failed.error, len(failed.error_message)) == (State.FAILED, "UNEXPECTED_TRUNCATION", 1_000)
    assert alter(cluster, Do.RESUME) == (ErrorCode.none, None)
    assert (mirror(cluster).state, mirror(cluster).error, mirror(cluster).error_message) == (
        State.ACTIVE,
        "NO_ERROR",
        "",
    )


def test_a_topic_that_failed_and_is_failed_over_keeps_saying_why() -> None:
    cluster = linked()
    alter(cluster, Do.FAIL, error="SOURCE_TOPIC_MAY_BE_DELETED")
    alter(cluster, Do.FAILOVER)
    assert (mirror(cluster).state, mirror(cluster).error) == (State.STOPPED, "SOURCE_TOPIC_MAY_BE_DELETED")


def test_each_topic_is_altered_by_itself() -> None:
    cluster = linked()
    cluster.response_to(creation(new_topic("plain")))
    request_response(cluster, new_mirror("b"))
    alter(cluster, Do.PAUSE, "b")
    answers = request_response(cluster, alteration(Do.PROMOTE, "orders", "b", "plain", "none", "c", "c")).topics
    assert [(answer.topic, *said(answer)) for answer in answers] == [
        ("orders", ErrorCode.none, None),
        (
            "b",
            ErrorCode.invalid_request,
            "Mirror topic 'b' cannot promote: it is PAUSED; possible actions: fail, failover, resume.",
        ),
        ("plain", ErrorCode.invalid_request, "Topic 'plain' is no mirror topic."),
        ("none", ErrorCode.unknown_topic_or_partition, "There is no topic 'none'."),
        ("c", ErrorCode.invalid_request, "Topic 'c' is named more than once."),
        ("c", ErrorCode.invalid_request, "Topic 'c' is named more than once."),
    ]


def test_what_is_no_action_and_no_error() -> None:
    cluster = linked()
    assert alter(cluster, "explode") == (ErrorCode.invalid_request, "There is no action 'explode'.")  # type: ignore[arg-type]
    assert alter(cluster, Do.FAIL, error="SNAFU") == (ErrorCode.invalid_request, "There is no error 'SNAFU'.")


def test_nothing_happens_when_an_action_is_only_checked() -> None:
    cluster = linked()
    before = cluster.image
    assert alter(cluster, Do.FAILOVER, validate_only=True) == (ErrorCode.none, None)
    assert cluster.image is before


def test_active_topics_of_a_paused_link_are_described_as_link_paused() -> None:
    cluster = linked()
    request_response(cluster, new_mirror("b"))
    alter(cluster, Do.PAUSE, "b")
    request_response(
        cluster, AlterLinkRequest(name="west", changes=configs({"cluster.link.paused": "true"}), validate_only=False)
    )
    told = describe_mirrors(cluster.image, DescribeMirrorsRequest(link_name="west", topics=None)).mirrors
    assert [(one.topic, one.state) for one in told] == [("b", "PAUSED"), ("orders", "LINK_PAUSED")]


def test_a_topic_that_is_no_mirror_topic_is_refused() -> None:
    cluster = linked()
    told = describe_mirrors(cluster.image, DescribeMirrorsRequest(link_name=None, topics=("orders", "none"))).mirrors
    assert [(one.topic, one.error_code) for one in told] == [
        ("none", ErrorCode.unknown_topic_or_partition),
        ("orders", ErrorCode.none),
    ]
    other = describe_mirrors(cluster.image, DescribeMirrorsRequest(link_name="east", topics=None))
    assert other.mirrors == ()


def test_leader_epochs_rise_and_never_fall() -> None:
    cluster = linked(partitions=2)
    (answer,) = request_response(cluster, floors("orders", {0: 5, 1: 3})).topics
    assert said(answer) == (ErrorCode.none, None)
    request_response(cluster, floors("orders", {0: 4, 1: 6}))
    assert [cluster.partition("orders", index).leader_epoch for index in range(2)] == [5, 6]


@pytest.mark.parametrize(
    ("topic", "at_least", "code"),
    [
        ("none", {0: 1}, ErrorCode.unknown_topic_or_partition),
        ("plain", {0: 1}, ErrorCode.invalid_request),
        ("orders", {1: 1}, ErrorCode.unknown_topic_or_partition),
        ("orders", {0: LEADER_EPOCH_MAX + 1}, ErrorCode.invalid_request),
    ],
)
def test_whose_epochs_are_not_raised(topic: str, at_least: dict[int, int], code: ErrorCode) -> None:
    cluster = linked()
    cluster.response_to(creation(new_topic("plain")))
    (answer,) = request_response(cluster, floors(topic, at_least)).topics
    assert answer.error_code is code


def test_a_stopped_topics_epochs_are_its_own() -> None:
    cluster = linked()
    alter(cluster, Do.FAILOVER)
    (answer,) = request_response(cluster, floors("orders", {0: 50})).topics
    assert answer.error_code is ErrorCode.policy_violation


def test_every_request_can_be_refused_as_a_whole() -> None:
    why = ControllerError(ErrorCode.not_controller)
    requests = [new_link(), new_mirror(), alteration(Do.PAUSE, "a"), floors("a", {0: 1})]
    for request in requests:
        response = refused(request, why)
        parts = getattr(response, "topics", (response,))
        assert {part.error_code for part in parts} == {ErrorCode.not_controller}


def change(topic: str, **settings: str) -> IncrementalAlterConfigsRequest:
    configs = tuple(
        entity(AlterableConfig, name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in settings.items()
    )
    resource = entity(AlterConfigsResource, resource_type=ResourceType.TOPIC, resource_name=topic, configs=configs)
    return entity(IncrementalAlterConfigsRequest, resources=(resource,), validate_only=False)


def test_what_is_always_synced_is_the_sources_to_change_until_the_topic_is_stopped() -> None:
    cluster = Cluster()
    request_response(cluster, new_link())
    request_response(cluster, new_mirror(source_configs={"max.message.bytes": "5000"}))
    larger = change("orders", max_message_bytes="6000", retention_ms="1")
    (refusal,) = source_refusals(cluster.image, larger).values()
    assert (refusal.code, refusal.message) == (
        ErrorCode.policy_violation,
        "max.message.bytes of mirror topic orders cannot be changed: its source decides, over link 'west'.",
    )
    assert source_refusals(cluster.image, change("orders", max_message_bytes="5000", retention_ms="1")) == {}
    replaced = entity(
        AlterConfigsRequest,
        resources=(entity(ReplacedResource, resource_type=2, resource_name="orders", configs=()),),
        validate_only=False,
    )
    assert set(source_refusals(cluster.image, replaced)) == {0}
    alter(cluster, Do.FAILOVER)
    assert source_refusals(cluster.image, larger) == {}
