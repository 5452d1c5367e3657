"""Changes of configurations, whole or by operation, for topics, brokers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from isthmus_model.config_resources import ResourceType
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse as ReplacedConfigs
from kio.schema.alter_configs.v2.response import AlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from isthmus_broker.core.config.definition import Definitions
from isthmus_broker.core.config.definitions import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
)
from isthmus_broker.core.config.dynamic import usable
from isthmus_broker.core.config.group_config import check_group
from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.topic_config import check_topic
from isthmus_broker.core.config.values import ConfigRefused, Type
from isthmus_broker.core.metadata.image import ELR_VERSION, ClusterImage, Resource
from isthmus_broker.core.metadata.names import why_invalid
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result, check_size
from isthmus_broker.core.metadata.schema import ClearElrRecord, ConfigRecord, MetadataRecord

MIN_ISR: Final = "min.insync.replicas"
MAX_VALUE_LENGTH: Final = 32_767  # a value that is longer is refused with INVALID_CONFIG
MIN_METRICS_INTERVAL_MS: Final = 100
MAX_METRICS_INTERVAL_MS: Final = 3_600_000
_CLIENT_MATCHES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    """One operation on one key."""

    name: str
    operation: int
    value: str | None


_DEFINITIONS: Final[Mapping[int, Definitions]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.BROKER: BROKER_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}


def layers_of(image: ClusterImage, context: ControllerContext) -> BrokerLayers:
    """This node's settings, with the valid dynamic settings of all brokers and of this one."""
    node_id = str(context.node.node_id)
    return BrokerLayers(
        context.node.layers.static,
        usable(image.config(ResourceType.BROKER, ""), per_broker=False),
        usable(image.config(ResourceType.BROKER, node_id), per_broker=True),
    )


def incremental_alter_configs(
    image: ClusterImage, request: IncrementalAlterConfigsRequest, context: ControllerContext
) -> Result[IncrementalAlterConfigsResponse]:
    requested = alterations_of(request)
    records, outcomes = _alter(image, requested, context, replace=False)
    responses = tuple(
        entity(
            AlterConfigsResourceResponse,
            error_code=code,
            error_message=message,
            resource_type=resource.type,
            resource_name=resource.name,
        )
        for (resource, _), (code, message) in zip(requested, outcomes, strict=True)
    )
    response = entity(IncrementalAlterConfigsResponse, throttle_time=NO_THROTTLE, responses=responses)
    return Result(() if request.validate_only else records, response)


def alter_configs(
    image: ClusterImage, request: AlterConfigsRequest, context: ControllerContext
) -> Result[AlterConfigsResponse]:
    """AlterConfigs: the given settings replace all settings of a resource."""
    requested = alterations_of(request)
    records, outcomes = _alter(image, requested, context, replace=True)
    responses = tuple(
        entity(
            ReplacedConfigs,
            error_code=code,
            error_message=message,
            resource_type=resource.type,
            resource_name=resource.name,
        )
        for (resource, _), (code, message) in zip(requested, outcomes, strict=True)
    )
    response = entity(AlterConfigsResponse, throttle_time=NO_THROTTLE, responses=responses)
    return Result(() if request.validate_only else records, response)


def alterations_of(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
) -> list[tuple[Resource, list[Alteration]]]:
    """The operations on each resource, in the request's order; AlterConfigs results in SET operations."""
    return [
        (
            Resource(resource.resource_type, resource.resource_name),
            [Alteration(c.name, getattr(c, "config_operation", Operation.SET), c.value) for c in resource.configs],
        )
        for resource in request.resources
    ]


Outcome = tuple[ErrorCode, str | None]


def _alter(
    image: ClusterImage,
    requested: Sequence[tuple[Resource, Sequence[Alteration]]],
    context: ControllerContext,
    *,
    replace: bool,
) -> tuple[tuple[MetadataRecord, ...], list[Outcome]]:
    """Records and one outcome per resource, in the request's order; a resource is changed completely or not at all."""
    named = [resource for resource, _ in requested]
    records: list[MetadataRecord] = []
    outcomes: list[Outcome] = []
    for resource, alterations in requested:
        try:
            if named.count(resource) > 1:
                raise ControllerError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            records += alter_resource(image, resource, alterations, context, replace=replace)
            outcomes.append((ErrorCode.none, None))
        except ControllerError as refusal:
            outcomes.append((refusal.code, refusal.message))
    check_size(records)
    return (*records, *clear_elr(image, records)), outcomes


def alter_resource(
    image: ClusterImage,
    resource: Resource,
    alterations: Sequence[Alteration],
    context: ControllerContext,
    *,
    replace: bool = False,
    is_new: bool = False,
) -> list[ConfigRecord]:
    """The records of one resource's change; ControllerError if the resulting settings are invalid.

    `replace` removes settings that are not named; `is_new` is for a topic that this same request creates.
    """
    check_request(resource, alterations)
    current = image.config(resource.type, resource.name)
    records = []
    for alteration in alterations:
        value = _altered(resource, alteration, current.get(alteration.name))
        # A broker's settings are written even when they do not change: files they name may have changed (KAFKA-14136).
        if value != current.get(alteration.name) or resource.type == ResourceType.BROKER:
            records.append(_config_record(resource, alteration.name, value))
    if replace:
        kept = {alteration.name for alteration in alterations}
        records += [_config_record(resource, name, None) for name in sorted(current) if name not in kept]
    _check_min_isr(image, records)
    _check_result(image, resource, _after(current, records), current, context)
    if not is_new:
        _check_exists(image, resource, context)
    return records


def _config_record(resource: Resource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def check_request(resource: Resource, alterations: Sequence[Alteration]) -> None:
    """Check the request itself, independent of the current settings."""
    names = [alteration.name for alteration in alterations]
    if len(set(names)) != len(names):
        raise ControllerError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    nulls = [a.name for a in alterations if a.value is None and a.operation != Operation.DELETE]
    if nulls:
        raise ControllerError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(nulls)}")
    if resource.type not in _DEFINITIONS:
        raise ControllerError(ErrorCode.invalid_request, f"Unknown resource type {resource.type}")


def _altered(resource: Resource, alteration: Alteration, current: str | None) -> str | None:
    """The value of a key after the operation; None if it is removed."""
    match alteration.operation:
        case Operation.SET:
            return alteration.value
        case Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT:
            definition = _DEFINITIONS[resource.type].get(alteration.name)
            if definition is None or definition.type is not Type.LIST:
                what = Operation(alteration.operation).name
                why = f"Can't {what} to key {alteration.name} because its type is not LIST."
                raise ControllerError(ErrorCode.invalid_config, why)
            assert alteration.value is not None, "null values are refused before"
            old = (definition.default_text or "") if current is None else current
            return combined_list(old, alteration.value, alteration.operation)
    raise ControllerError(ErrorCode.unknown_server_error)


def combined_list(old: str, value: str, operation: int) -> str:
    parts = [part for part in old.split(",") if part]
    for part in value.split(","):
        if operation == Operation.APPEND and part not in parts:
            parts.append(part)
        elif operation == Operation.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def _after(current: Mapping[str, str], records: Iterable[ConfigRecord]) -> dict[str, str]:
    settings = dict(current)
    for record in records:
        if record.value is None:
            settings.pop(record.name, None)
        elif len(record.value) > MAX_VALUE_LENGTH:
            why = "The configuration value cannot be added because it exceeds the maximum value size"
            raise ControllerError(ErrorCode.invalid_config, f"{why} of {MAX_VALUE_LENGTH} bytes.")
        else:
            settings[record.name] = record.value
    return settings


def _check_min_isr(image: ClusterImage, records: Sequence[ConfigRecord]) -> None:
    """With eligible leader replicas, there is always exactly one min.insync.replicas for all brokers."""
    if image.feature(ELR_VERSION) < 1:
        return
    for record in records:
        if record.name != MIN_ISR or record.resource_type != ResourceType.BROKER:
            continue
        if record.resource_name:
            raise ControllerError(
                ErrorCode.invalid_config, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            )
        if record.value is None:
            raise ControllerError(
                ErrorCode.invalid_config, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
            )


def _check_result(
    image: ClusterImage,
    resource: Resource,
    settings: Mapping[str, str],
    current: Mapping[str, str],
    context: ControllerContext,
) -> None:
    """Validate the resource's resulting settings."""
    try:
        match resource.type:
            case ResourceType.TOPIC:
                _check_topic_name(resource.name)
                has_tier = context.node.settings.remote_log_storage_system_enable
                check_topic(settings, current, context.node.topic_defaults, has_tier=has_tier)
            case ResourceType.GROUP:
                if not resource.name:
                    raise ControllerError(ErrorCode.invalid_request, "Default group resources are not allowed.")
                check_group(settings, context.node.values)
            case ResourceType.CLIENT_METRICS:
                _check_client_metrics(resource.name, settings)
            case ResourceType.BROKER:
                pass  # checked by the broker that received the request, see `broker_configs`
    except ConfigRefused as refusal:
        raise ControllerError(ErrorCode.invalid_config, str(refusal)) from None


def _check_topic_name(name: str) -> None:
    if not name:
        raise ControllerError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    wrong = why_invalid(name)
    if wrong is not None:
        raise ControllerError(ErrorCode.invalid_topic_exception, wrong)


def _check_client_metrics(name: str, settings: Mapping[str, str]) -> None:
    """Subscriptions are stored and described, but no metrics are collected from clients."""
    if not name:
        raise ControllerError(ErrorCode.invalid_request, "Subscription name can't be empty")
    for key in settings:
        if key not in CLIENT_METRICS_CONFIGS:
            raise ControllerError(ErrorCode.invalid_request, f"Unknown client metrics configuration: {key}")
    values = CLIENT_METRICS_CONFIGS.parse(settings)
    interval_ms, patterns = values["interval.ms"], values["match"]
    assert isinstance(interval_ms, int)
    assert isinstance(patterns, tuple)
    if not MIN_METRICS_INTERVAL_MS <= interval_ms <= MAX_METRICS_INTERVAL_MS:
        why = f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        raise ControllerError(ErrorCode.invalid_request, why)
    for pattern in patterns:
        key, equals, expression = pattern.partition("=")
        if key.strip() not in _CLIENT_MATCHES or not equals or not expression or "=" in expression:
            raise ControllerError(ErrorCode.invalid_config, f"Illegal client matching pattern: {pattern}")


def _check_exists(image: ClusterImage, resource: Resource, context: ControllerContext) -> None:
    if resource.type == ResourceType.TOPIC and resource.name not in image.topics.ids:
        raise ControllerError(ErrorCode.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist.")
    if resource.type == ResourceType.BROKER and resource.name:
        node_id = int(resource.name)
        voters = {voter.node_id for voter in context.node.voters}
        if node_id not in voters and node_id not in image.brokers and node_id not in image.controllers:
            raise ControllerError(ErrorCode.broker_id_not_registered, f"No node with id {node_id} found.")


def clear_elr(image: ClusterImage, records: Iterable[MetadataRecord]) -> list[ClearElrRecord]:
    """Clear eligible leader replicas when min.insync.replicas changes: they were chosen under the old value."""
    if image.feature(ELR_VERSION) < 1:
        return []
    return [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else "")
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR
    ]
