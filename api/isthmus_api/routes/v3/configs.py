"""Configs of topics, of brokers, and of all brokers together: the same resource three times."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from isthmus_client.admin import configs as config_admin
from isthmus_client.admin.configs import Change, Config, Operation, Source
from isthmus_client.admin.configs import Resource as ConfigResource
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_model.config_resources import ResourceType
from pydantic import Field, model_validator

from isthmus_api.models import RequestBody, Shape
from isthmus_api.problems import Problem
from isthmus_api.request_context import Call
from isthmus_api.routes.v3.shapes import Resource

_SOURCES = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.BROKER_DEFAULTS: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
    Source.BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
}


class Synonym(Shape):
    """Another source of the value."""

    name: str
    value: str | None
    source: str


class ConfigData(Resource):
    """A config; a sensitive one has no value here."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[Synonym]


class UpdateConfigRequest(RequestBody):
    """The new value."""

    value: str | None


class AlterOperation(StrEnum):
    """An operation on a config; DELETE resets it to its default."""

    SET = "SET"
    DELETE = "DELETE"


class AlterConfig(RequestBody):
    """One change among several."""

    name: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET

    @model_validator(mode="after")
    def _set_to_something(self) -> AlterConfig:
        if self.operation is AlterOperation.SET and self.value is None:
            raise ValueError("SET needs a value")
        return self


class AlterConfigsRequest(RequestBody):
    """Changes that are applied all or none."""

    data: list[AlterConfig] = Field(min_length=1, max_length=1000)
    validate_only: bool = False


def config_fields(config: Config) -> dict[str, object]:
    """The fields of a ConfigData that all resources share."""
    return {
        "name": config.name,
        "value": config.value,
        "is_default": config.source is Source.DEFAULT,
        "is_read_only": config.read_only,
        "is_sensitive": config.sensitive,
        "source": _SOURCES.get(config.source, "UNKNOWN"),
        "synonyms": [],
    }


async def configs_of(client: Client, resource: ConfigResource) -> list[Config]:
    """All configs of a resource; raises the client's error."""
    described = (await config_admin.describe(client, [resource]))[resource]
    if isinstance(described, ClientError):
        raise described
    return described


async def one_config(client: Client, resource: ConfigResource, name: str) -> Config:
    """One config of a resource; raises Problem when it has none of that name."""
    for config in await configs_of(client, resource):
        if config.name == name:
            return config
    raise Problem(404, f"Config {name} cannot be found for {resource}.")


async def alter(
    call: Call, cluster_id: str, resource: ConfigResource, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    """Change configs of a resource; raises Problem."""
    async with call.parts.clusters.use(cluster_id) as client:
        refused = (await config_admin.alter(client, {resource: changes}, validate_only=validate_only))[resource]
        if refused is not None:
            raise refused


def set_or_reset(name: str, value: str | None) -> Change:
    """Set a config, or reset it without a value."""
    return Change(name, Operation.DELETE if value is None else Operation.SET, value)


def changes_of(body: AlterConfigsRequest) -> list[Change]:
    """The changes as the cluster's client takes them."""
    return [Change(one.name, Operation[one.operation], one.value) for one in body.data]


def of_topic(name: str) -> ConfigResource:
    """A topic's configs."""
    return ConfigResource(ResourceType.TOPIC, name)


def of_broker(broker_id: int | None) -> ConfigResource:
    """A broker's configs, or those that all brokers have."""
    return ConfigResource(ResourceType.BROKER, "" if broker_id is None else str(broker_id))
