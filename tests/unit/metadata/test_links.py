"""Links as records of the metadata log: created, altered, reported, described, deleted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from isthmus_broker.core.metadata.config_queries import describe_configs, list_config_resources
from isthmus_broker.core.metadata.history import ImageHistory
from isthmus_broker.core.metadata.image import snapshot
from isthmus_broker.core.metadata.link_queries import describe_links
from isthmus_broker.core.metadata.links import OWN_RESOURCE
from isthmus_broker.core.metadata.records import decode_record, encode_record
from isthmus_broker.core.metadata.schema import ConfigRecord
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.links import (
    AlterLinkRequest,
    DeleteLinkRequest,
    DescribedLink,
    DescribedTask,
    DescribeLinksRequest,
    ReportLinkRequest,
)
from isthmus_wire.extensions.mirrors import MirrorAction, MirrorState
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

from tests.unit.metadata.cluster import CLUSTER_ID, Cluster
from tests.unit.metadata.links import SOURCE, alter, configs, linked, mirror, new_link, request_response, said


def described(cluster: Cluster, name: str = "west") -> DescribedLink:
    (link,) = describe_links(cluster.image, DescribeLinksRequest(names=(name,))).links
    return link


def altered(cluster: Cluster, validate_only: bool = False, **changes: str | None) -> tuple[ErrorCode, str | None]:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    return said(
        request_response(cluster, AlterLinkRequest(name="west", changes=configs(named), validate_only=validate_only))
    )


def report(cluster: Cluster, state: str, error: str = "NO_ERROR", **given: Any) -> tuple[ErrorCode, str | None]:
    fields: dict[str, Any] = {"link_id": described(cluster).link_id, "link_error_message": "", "tasks": (), **given}
    return said(request_response(cluster, ReportLinkRequest(state=state, link_error=error, **fields)))


def test_a_link_is_described_with_every_setting_in_force() -> None:
    cluster = Cluster()
    response = request_response(cluster, new_link(settings={"consumer.offset.sync.enable": "true"}))
    assert said(response) == (ErrorCode.none, None)
    link = described(cluster)
    assert (link.link_id, link.source_cluster_id, link.state, link.link_error) == (
        response.link_id,
        SOURCE,
        "ACTIVE",
        "NO_ERROR",
    )
    told = {config.name: (config.value, config.is_default) for config in link.configs}
    assert told["bootstrap.servers"] == ("w:9092", False)
    assert told["consumer.offset.sync.enable"] == ("true", False)
    assert told["consumer.offset.sync.ms"] == ("30000", True)
    assert [(task.name, task.state) for task in link.tasks] == [
        ("AutoCreateMirror", "UNKNOWN"),
        ("ConsumerOffsetSync", "UNKNOWN"),
        ("TopicConfigsSync", "UNKNOWN"),
    ]


def test_a_link_without_a_report_is_in_an_unknown_state() -> None:
    cluster = Cluster()
    request_response(cluster, new_link(source=None, validate_link=False))
    assert (described(cluster).state, described(cluster).source_cluster_id) == ("UNKNOWN", "")


@pytest.mark.parametrize(
    ("request_fields", "code", "why"),
    [
        ({"name": "a/b"}, ErrorCode.invalid_request, "Link name is invalid"),
        ({"name": "west"}, ErrorCode.duplicate_resource, "Link 'west' already exists."),
        ({"name": "self", "source": CLUSTER_ID}, ErrorCode.invalid_request, "a cluster is not linked to itself"),
        ({"name": "b", "settings": {"bootstrap.servers": ""}}, ErrorCode.invalid_config, "must name brokers"),
        ({"name": "b", "settings": {"nonsense": "1"}}, ErrorCode.invalid_config, "Unknown link config name: nonsense"),
    ],
)
def test_what_no_link_is_made_of(request_fields: dict[str, Any], code: ErrorCode, why: str) -> None:
    cluster = Cluster()
    request_response(cluster, new_link())
    before = cluster.image
    error, message = said(request_response(cluster, new_link(**request_fields)))
    assert error is code
    assert message is not None
    assert why in message
    assert cluster.image is before


def test_nothing_happens_when_a_link_is_only_checked() -> None:
    cluster = Cluster()
    assert said(request_response(cluster, new_link(validate_only=True))) == (ErrorCode.none, None)
    assert describe_links(cluster.image, DescribeLinksRequest(names=None)).links == ()


def test_settings_are_altered_all_or_none() -> None:
    cluster = linked()
    assert altered(cluster, cluster_link_paused="true", consumer_offset_sync_ms="1") == (
        ErrorCode.invalid_config,
        "Invalid value 1 for configuration consumer.offset.sync.ms: Value must be at least 1000",
    )
    assert described(cluster).state == "ACTIVE"
    assert altered(cluster, validate_only=True, cluster_link_paused="true")[0] is ErrorCode.none
    assert described(cluster).state == "ACTIVE"
    assert altered(cluster, cluster_link_paused="true", consumer_offset_sync_ms="2000") == (ErrorCode.none, None)
    assert described(cluster).state == "PAUSED"
    assert altered(cluster, cluster_link_paused=None) == (ErrorCode.none, None)
    assert described(cluster).state == "ACTIVE"
    assert {c.value for c in described(cluster).configs if c.name == "consumer.offset.sync.ms"} == {"2000"}


def test_the_prefix_stays() -> None:
    cluster = linked(settings={"cluster.link.prefix": "w."})
    code, message = altered(cluster, cluster_link_prefix="v.")
    assert (code, message) == (
        ErrorCode.invalid_config,
        "cluster.link.prefix cannot be changed once a link exists.",
    )
    assert altered(cluster, cluster_link_prefix="w.") == (ErrorCode.none, None)


def test_a_report_is_written_when_it_says_something_new() -> None:
    cluster = linked()
    task = DescribedTask(name="ConsumerOffsetSync", state="IN_ERROR", error="AUTHORIZATION_ERROR", error_message="no")
    assert (
        report(cluster, "UNAVAILABLE", "TIMEOUT_ERROR", link_error_message="silent", tasks=(task,))[0] is ErrorCode.none
    )
    link = described(cluster)
    assert (link.state, link.link_error, link.link_error_message) == ("UNAVAILABLE", "TIMEOUT_ERROR", "silent")
    assert task in link.tasks
    before = cluster.image
    report(cluster, "UNAVAILABLE", "TIMEOUT_ERROR", link_error_message="silent", tasks=(task,))
    assert cluster.image is before
    assert report(cluster, "ACTIVE")[0] is ErrorCode.none
    assert (described(cluster).state, described(cluster).link_error_message) == ("ACTIVE", "")
    assert task in described(cluster).tasks


def test_what_is_no_report() -> None:
    cluster = linked()
    assert report(cluster, "SLEEPY")[0] is ErrorCode.invalid_request
    assert report(cluster, "ACTIVE", link_id=UUID(int=1))[0] is ErrorCode.resource_not_found
    task = DescribedTask(name="Coffee", state="ACTIVE", error="NO_ERROR", error_message="")
    assert report(cluster, "ACTIVE", tasks=(task,))[0] is ErrorCode.invalid_request


def test_a_link_that_copies_is_not_deleted_unless_by_force() -> None:
    cluster = linked(partitions=2)
    deletion = DeleteLinkRequest(name="west", force=False, validate_only=False)
    code, message = said(request_response(cluster, deletion))
    assert code is ErrorCode.invalid_request
    assert message == "Link 'west' still copies 1 topic(s): orders. Promote them or fail them over first."
    by_force = DeleteLinkRequest(name="west", force=True, validate_only=False)
    assert said(request_response(cluster, by_force)) == (ErrorCode.none, None)
    assert described(cluster).error_code is ErrorCode.resource_not_found
    assert mirror(cluster).state is MirrorState.STOPPED
    assert [cluster.partition("orders", index).leader_epoch for index in range(2)] == [10, 10]


def test_a_link_whose_topics_are_stopped_is_deleted() -> None:
    cluster = linked()
    alter(cluster, MirrorAction.FAILOVER)
    assert (
        said(request_response(cluster, DeleteLinkRequest(name="west", force=False, validate_only=True)))[0]
        is ErrorCode.none
    )
    assert described(cluster).error_code is ErrorCode.none
    assert (
        said(request_response(cluster, DeleteLinkRequest(name="west", force=False, validate_only=False)))[0]
        is ErrorCode.none
    )
    assert [resource.name for resource in cluster.image.configs if resource.type == OWN_RESOURCE] == ["mirror/orders"]


def test_a_snapshot_has_links_and_mirrors_and_every_record_is_one_that_kafka_knows() -> None:
    cluster = linked(settings={"topic.config.sync.include": "", "consumer.offset.sync.enable": "true"})
    report(cluster, "UNAVAILABLE", "TIMEOUT_ERROR")
    records = [decode_record(encode_record(record)) for record in snapshot(cluster.image)]
    history = ImageHistory()
    history.load_snapshot(records, 100)
    assert history.committed == cluster.image
    own = [record for record in records if isinstance(record, ConfigRecord) and "/" in record.resource_name]
    assert {(record.resource_type, record.resource_name) for record in own} == {(0, "link/west"), (0, "mirror/orders")}


def test_kafkas_clients_see_nothing_of_it() -> None:
    cluster = linked()
    listing = entity(ListConfigResourcesRequest, resource_types=())
    listed = list_config_resources(cluster.image, listing, 1).config_resources
    assert {resource.resource_name for resource in listed} == {"1", "orders"}
    asked = entity(
        DescribeConfigsResource, resource_type=OWN_RESOURCE, resource_name="link/west", configuration_keys=None
    )
    request = entity(DescribeConfigsRequest, resources=(asked,), include_synonyms=False, include_documentation=False)
    (answer,) = describe_configs(cluster.image, request, cluster.context.node).results
    assert (answer.error_code, answer.configs) == (ErrorCode.invalid_request, ())
    change = entity(AlterableConfig, name="state", config_operation=0, value="ACTIVE")
    resource = entity(
        AlterConfigsResource, resource_type=OWN_RESOURCE, resource_name="mirror/orders", configs=(change,)
    )
    (refused,) = cluster.response_to(
        entity(IncrementalAlterConfigsRequest, resources=(resource,), validate_only=False)
    ).responses
    assert refused.error_code is ErrorCode.invalid_request
