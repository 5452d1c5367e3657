"""Checks of configuration changes by the broker that receives them, before it forwards them.

Only a broker itself can check its own settings, and only the link's worker may change the settings that a mirror topic always has from its
source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from isthmus_model.config_resources import ResourceType
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import ALWAYS_SYNCED_CONFIGS
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

from isthmus_broker.core.config.definitions import BROKER_CONFIGS
from isthmus_broker.core.config.dynamic import check_broker
from isthmus_broker.core.config.values import ConfigRefused, Type
from isthmus_broker.core.metadata.configs import (
    Alteration,
    Operation,
    alterations_of,
    check_request,
    combined_list,
    layers_of,
)
from isthmus_broker.core.metadata.image import ClusterImage, Resource
from isthmus_broker.core.metadata.links import copied
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError

AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


def refusals_here(image: ClusterImage, request: AlterRequest, context: ControllerContext) -> dict[int, ControllerError]:
    """The resources of a request that this broker refuses to forward, by position, and why."""
    whole = isinstance(request, AlterConfigsRequest)
    refusals = {}
    for place, (resource, alterations) in enumerate(alterations_of(request)):
        try:
            check_request(resource, alterations)
            if resource.type == ResourceType.BROKER:
                _check_settings(image, resource, alterations, context, whole=whole)
        except ControllerError as refusal:
            refusals[place] = refusal
    return refusals


def source_refusals(image: ClusterImage, request: AlterRequest) -> dict[int, ControllerError]:
    """The resources of a client's request whose changes only a link's worker may make, by position, and why."""
    whole = isinstance(request, AlterConfigsRequest)
    refusals = {}
    for place, (resource, alterations) in enumerate(alterations_of(request)):
        mirror = copied(image, resource.name) if resource.type == ResourceType.TOPIC else None
        if mirror is None:
            continue
        current = image.config(resource.type, resource.name)
        requested = {alteration.name: alteration.value for alteration in alterations}
        named = ALWAYS_SYNCED_CONFIGS if whole else [name for name in ALWAYS_SYNCED_CONFIGS if name in requested]
        changed = [name for name in named if requested.get(name) != current.get(name)]
        if changed:
            why = f"{', '.join(changed)} of mirror topic {resource.name} cannot be changed: its source decides"
            refusals[place] = ControllerError(ErrorCode.policy_violation, f"{why}, over link '{mirror.link_name}'.")
    return refusals


def without(request: AlterRequest, refusals: Mapping[int, ControllerError]) -> AlterRequest:
    """The part of the request to forward."""
    kept: Any = tuple(resource for place, resource in enumerate(request.resources) if place not in refusals)
    return replace(request, resources=kept)


def joined(response: Any, refused: Any, refusals: Mapping[int, ControllerError]) -> Any:
    """The controller's response with this broker's refusals in their positions; `refused` is a response that refuses every resource."""
    decided = iter(response.responses)
    parts = [
        replace(part, error_code=refusals[place].code, error_message=refusals[place].message)
        if place in refusals
        else next(decided)
        for place, part in enumerate(refused.responses)
    ]
    return replace(response, responses=tuple(parts))


def _check_settings(
    image: ClusterImage,
    resource: Resource,
    alterations: Sequence[Alteration],
    context: ControllerContext,
    *,
    whole: bool,
) -> None:
    if resource.name:
        _check_is_this_node(resource.name, context.node.node_id)
    settings = {} if whole else dict(image.config(resource.type, resource.name))
    for alteration in alterations:
        _apply(settings, alteration)
    try:
        check_broker(layers_of(image, context), settings, per_broker=bool(resource.name))
    except ConfigRefused as refusal:
        # Kafka always responds with this code to invalid broker settings (KAFKA-13609).
        raise ControllerError(ErrorCode.invalid_request, str(refusal)) from None


def _check_is_this_node(name: str, node_id: int) -> None:
    try:
        named = int(name)
    except ValueError:
        raise ControllerError(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}") from None
    if named != node_id:
        raise ControllerError(
            ErrorCode.invalid_request, f"Unexpected broker id, expected {node_id}, but received {name}"
        )


def _apply(settings: dict[str, str], alteration: Alteration) -> None:
    name, value = alteration.name, alteration.value
    if alteration.operation not in list(Operation):
        raise ControllerError(ErrorCode.invalid_request, f"Unknown operations type {alteration.operation}")
    if alteration.operation == Operation.DELETE:
        settings.pop(name, None)
        return
    assert value is not None, "null values are refused before"
    if alteration.operation == Operation.SET:
        settings[name] = value
        return
    what = "append" if alteration.operation == Operation.APPEND else "subtract"
    if name not in BROKER_CONFIGS:
        raise ControllerError(ErrorCode.invalid_config, f"Unknown config name: {name}")
    if BROKER_CONFIGS[name].type is not Type.LIST:
        raise ControllerError(ErrorCode.invalid_config, f"Config value {what} is not allowed for config key: {name}")
    old = settings.get(name, BROKER_CONFIGS[name].default_text or "")
    settings[name] = combined_list(old, value, alteration.operation)
