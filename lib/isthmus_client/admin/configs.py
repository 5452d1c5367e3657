"""Configs of topics, brokers, the brokers' defaults, groups and others: describe and change."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from isthmus_model.config_resources import ResourceType
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused


class Resource(NamedTuple):
    """A resource with configs; a broker with an empty name is the cluster-wide default of all brokers."""

    kind: ResourceType
    name: str

    def __str__(self) -> str:
        if self.kind is ResourceType.BROKER and not self.name:
            return "the brokers' defaults"
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name}"


class Source(IntEnum):
    """The source of a value."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    BROKER_DEFAULTS = 3
    STATIC = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_SET_HERE = frozenset(
    {Source.TOPIC, Source.BROKER, Source.BROKER_DEFAULTS, Source.BROKER_LOGGER, Source.CLIENT_METRICS, Source.GROUP}
)


@dataclass(frozen=True, slots=True)
class Config:
    """One config; a sensitive one has the value None."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    documentation: str | None

    @property
    def is_set(self) -> bool:
        """Whether it was set at run time, rather than in a file or by default."""
        return self.source in _SET_HERE


class Operation(IntEnum):
    """The operation of a change."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One change of one config; deleting restores the default."""

    name: str
    operation: Operation
    value: str | None = None


async def describe(
    client: Client, resources: Collection[Resource], *, documentation: bool = False
) -> dict[Resource, list[Config] | ClientError]:
    """All configs of each resource, by name, or its error."""
    outcomes: dict[Resource, list[Config] | ClientError] = {}
    for node_id, share in _by_broker(resources).items():
        request = entity(
            DescribeConfigsRequest,
            resources=tuple(
                entity(
                    DescribeConfigsResource, resource_type=int(r.kind), resource_name=r.name, configuration_keys=None
                )
                for r in share
            ),
            include_synonyms=False,
            include_documentation=documentation,
        )
        try:
            response = await _query(client, node_id, ApiKey.DESCRIBE_CONFIGS, request)
        except ClientError as error:
            outcomes |= dict.fromkeys(share, error)
            continue
        for result in response.results:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            outcomes[resource] = _configs(resource, result)
    return {resource: outcomes[resource] for resource in resources}


async def alter(
    client: Client, changes: Mapping[Resource, Collection[Change]], *, validate_only: bool = False
) -> dict[Resource, ClientError | None]:
    """Change configs; the changes of one resource apply all or none. Returns None or the error of each resource."""
    outcomes: dict[Resource, ClientError | None] = {}
    for node_id, share in _by_broker(changes).items():
        request = entity(
            IncrementalAlterConfigsRequest,
            resources=tuple(
                entity(
                    AlterConfigsResource,
                    resource_type=int(resource.kind),
                    resource_name=resource.name,
                    configs=tuple(
                        entity(AlterableConfig, name=c.name, config_operation=int(c.operation), value=c.value)
                        for c in changes[resource]
                    ),
                )
                for resource in share
            ),
            validate_only=validate_only,
        )
        try:
            response = await _change(client, node_id, request)
        except ClientError as error:
            outcomes |= dict.fromkeys(share, error)
            continue
        for result in response.responses:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            failed = result.error_code is not ErrorCode.none
            outcomes[resource] = Refused(result.error_code, str(resource), result.error_message) if failed else None
    return {resource: outcomes[resource] for resource in changes}


async def list_resources(client: Client, kind: ResourceType) -> list[Resource]:
    """The resources of a kind that have configs of their own."""
    from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest

    request = entity(ListConfigResourcesRequest, resource_types=(int(kind),))
    response = await client.send_to_any(ApiKey.LIST_CONFIG_RESOURCES, request, at_least=1)
    if response.error_code is not ErrorCode.none:
        raise Refused(response.error_code, f"config resources of kind {kind.name.lower()}")
    return sorted(Resource(kind, one.resource_name) for one in response.config_resources if one.resource_type == kind)


def _by_broker(resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
    """Only a broker itself reports its own configs; any broker reports the others."""
    shares: dict[int | None, list[Resource]] = {}
    for resource in resources:
        own = resource.kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name.isdigit()
        shares.setdefault(int(resource.name) if own else None, []).append(resource)
    return shares


async def _query(client: Client, node_id: int | None, api: ApiKey, request: Any) -> Any:
    if node_id is None:
        return await client.send_to_any(api, request)
    return await client.send_to_broker(node_id, api, request)


async def _change(client: Client, node_id: int | None, request: Any) -> Any:
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    if node_id is None:
        return await client.send_to_controller(api, request, lambda r: [one.error_code for one in r.responses])
    return await client.send_to_broker(node_id, api, request)


def _configs(resource: Resource, result: Any) -> list[Config] | Refused:
    if result.error_code is not ErrorCode.none:
        return Refused(result.error_code, str(resource), result.error_message)
    return sorted(
        (
            Config(c.name, c.value, _source(c.config_source), c.read_only, c.is_sensitive, c.documentation)
            for c in result.configs
        ),
        key=lambda config: config.name,
    )


def _source(number: int) -> Source:
    """The source; UNKNOWN for numbers of newer Kafka versions."""
    try:
        return Source(number)
    except ValueError:
        return Source.UNKNOWN
