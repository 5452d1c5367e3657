"""Queries of configurations over a committed image: DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ConfigResource, ListConfigResourcesResponse

from isthmus_broker.core.config.describe import (
    Described,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.image import ClusterImage, Resource
from isthmus_broker.core.metadata.names import why_invalid
from isthmus_broker.core.metadata.result import ControllerError

# ListConfigResources began as the listing of client metrics: version 0 supports nothing else.
FIRST_VERSION_WITH_TYPES: Final = 1

_TYPES: Final = frozenset(int(kind) for kind in ResourceType)
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to "
    "an incompatible broker. See the broker logs for more details."
)


def describe_configs(image: ClusterImage, request: DescribeConfigsRequest, node: NodeConfig) -> DescribeConfigsResponse:
    """The settings of each resource, as this node resolves them; a broker's settings are known on that broker only."""
    results = []
    if any(int(requested.resource_type) not in _TYPES for requested in request.resources):
        # A type that Kafka does not know fails the whole request, with a general message.
        malformed = ControllerError(ErrorCode.invalid_request, _MALFORMED)
        refused = tuple(_refused(requested, malformed) for requested in request.resources)
        return entity(DescribeConfigsResponse, throttle_time=NO_THROTTLE, results=refused)
    for requested in request.resources:
        try:
            described = _described(image, Resource(requested.resource_type, requested.resource_name), node)
            results.append(_result(requested, described, request))
        except ControllerError as refusal:
            results.append(_refused(requested, refusal))
    return entity(DescribeConfigsResponse, throttle_time=NO_THROTTLE, results=tuple(results))


def _described(image: ClusterImage, resource: Resource, node: NodeConfig) -> list[Described]:
    settings = image.configs.get(resource, {})
    match resource.type:
        case ResourceType.TOPIC:
            wrong = why_invalid(resource.name)
            if wrong is not None:
                raise ControllerError(ErrorCode.invalid_topic_exception, wrong)
            if resource.name not in image.topics.ids:
                raise ControllerError(ErrorCode.unknown_topic_or_partition)
            return describe_topic(node, settings)
        case ResourceType.BROKER:
            if not resource.name:
                return describe_broker_default(node)
            _check_is_this_broker(resource.name, node.node_id, expected=f"{node.node_id} or empty string,")
            return describe_broker(node)
        case ResourceType.BROKER_LOGGER:
            if not resource.name:
                raise ControllerError(ErrorCode.invalid_request, "Broker id must not be empty")
            _check_is_this_broker(resource.name, node.node_id, expected=str(node.node_id))
            return []  # this broker has none of Java's loggers
        case ResourceType.CLIENT_METRICS:
            if not resource.name:
                raise ControllerError(ErrorCode.invalid_request, "Client metrics subscription name must not be empty")
            return describe_client_metrics(settings)
        case ResourceType.GROUP:
            if not resource.name:
                raise ControllerError(ErrorCode.invalid_request, "Group name must not be empty")
            return describe_group(node, settings)
    raise AssertionError(f"resource type {resource.type} is refused before")


def _check_is_this_broker(name: str, node_id: int, *, expected: str) -> None:
    try:
        named = int(name)
    except ValueError:
        raise ControllerError(ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}") from None
    if named != node_id:
        why = f"Unexpected broker id, expected {expected} but received {name}"
        raise ControllerError(ErrorCode.invalid_request, why)


def _result(
    requested: DescribeConfigsResource, described: Sequence[Described], request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    keys = set(requested.configuration_keys or ())
    return entity(
        DescribeConfigsResult,
        error_code=ErrorCode.none,
        error_message="",
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
        configs=tuple(
            _entry(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
            for entry in described
            if not keys or entry.name in keys
        ),
    )


def _entry(described: Described, *, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return entity(
        DescribeConfigsResourceResult,
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=int(described.source),
        is_sensitive=described.sensitive,
        synonyms=tuple(
            entity(DescribeConfigsSynonym, name=s.name, value=s.value, source=int(s.source))
            for s in (described.synonyms if synonyms else ())
        ),
        config_type=described.type_id,
        documentation=described.doc if documentation else None,
    )


def _refused(requested: DescribeConfigsResource, refusal: ControllerError) -> DescribeConfigsResult:
    return entity(
        DescribeConfigsResult,
        error_code=refusal.code,
        error_message=refusal.message or "",
        resource_type=requested.resource_type,
        resource_name=requested.resource_name,
        configs=(),
    )


def list_config_resources(
    image: ClusterImage, request: ListConfigResourcesRequest, version: int
) -> ListConfigResourcesResponse:
    """The resources that have, or can have, settings, of the requested types or of all."""
    supported = list(ResourceType) if version >= FIRST_VERSION_WITH_TYPES else [ResourceType.CLIENT_METRICS]
    types = [int(resource_type) for resource_type in request.resource_types] or [int(known) for known in supported]
    code = ErrorCode.none
    resources: list[Resource] = []
    if set(types) <= set(supported):
        resources = [resource for kind in _LISTED if kind in types for resource in _resources(image, kind)]
    else:
        code = ErrorCode.unsupported_version
    return entity(
        ListConfigResourcesResponse,
        throttle_time=NO_THROTTLE,
        error_code=code,
        config_resources=tuple(
            entity(ConfigResource, resource_name=resource.name, resource_type=resource.type) for resource in resources
        ),
    )


_LISTED: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def _resources(image: ClusterImage, kind: ResourceType) -> list[Resource]:
    match kind:
        case ResourceType.TOPIC:
            names = sorted(image.topics.ids)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            names = [str(broker_id) for broker_id in sorted(image.brokers)]
        case ResourceType.GROUP | ResourceType.CLIENT_METRICS:
            names = sorted(resource.name for resource in image.configs if resource.type == kind)
    return [Resource(kind, name) for name in names]
