"""The configs of copied topics: read what is set, and write changes."""

from collections.abc import Collection

from isthmus_client.admin import configs
from isthmus_client.admin.configs import Change, Config, Operation, Resource
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_model.config_resources import ResourceType


async def set_on_topics(client: Client, names: Collection[str]) -> dict[str, dict[str, str]]:
    """The configs that are set on topics; omits topics that cannot be described."""
    if not names:
        return {}
    described = await configs.describe(client, [Resource(ResourceType.TOPIC, name) for name in names])
    return {
        resource.name: _values(values) for resource, values in described.items() if not isinstance(values, ClientError)
    }


def _values(topic_configs: Collection[Config]) -> dict[str, str]:
    return {config.name: config.value for config in topic_configs if config.is_set and config.value is not None}


def change(name: str, value: str | None) -> Change:
    """Set a config, or delete it if there is no value."""
    return Change(name, Operation.DELETE if value is None else Operation.SET, value)
