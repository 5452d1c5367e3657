"""Topics of a link: configs that follow the source's, and mirror topics that are made by themselves."""

from collections.abc import Collection, Mapping
from typing import Final

from isthmus_client.admin import configs, topics
from isthmus_client.admin.configs import Change, Config, Operation, Resource, ResourceType
from isthmus_client.admin.mirrors import create_mirror
from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_wire.errors import ErrorCode

from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.core.topic_configs import config_changes
from isthmus_linker.edge.outcome import FINE, INTERNAL_ERROR, Outcome

_EXISTS: Final = "TOPIC_EXISTS_ERROR"


async def sync_topic_configs(
    source: Client, destination: Client, settings: LinkSettings, mirrors: Mapping[str, str]
) -> Outcome:
    """For the mirror topics of a link, by their source's name; raises ClientError when a whole side cannot be asked."""
    theirs = await _set_on_topics(source, mirrors)
    ours = await _set_on_topics(destination, mirrors.values())
    changes: dict[Resource, list[Change]] = {}
    for topic, mirror in mirrors.items():
        if topic in theirs and mirror in ours:
            wanted = config_changes(theirs[topic], ours[mirror], settings.configs)
            if wanted:
                changes[Resource(ResourceType.TOPIC, mirror)] = [_change(name, value) for name, value in wanted.items()]
    refused = await configs.alter(destination, changes) if changes else {}
    failure = next((refusal for refusal in refused.values() if refusal is not None), None)
    return FINE if failure is None else Outcome(INTERNAL_ERROR, str(failure))


async def _set_on_topics(client: Client, names: Collection[str]) -> dict[str, dict[str, str]]:
    """What somebody has set, by topic; a topic that cannot be told is left out."""
    found = await configs.describe(client, [Resource(ResourceType.TOPIC, name) for name in names])
    return {resource.name: _values(told) for resource, told in found.items() if not isinstance(told, ClientError)}


def _values(told: Collection[Config]) -> dict[str, str]:
    return {config.name: config.value for config in told if config.is_set and config.value is not None}


def _change(name: str, value: str | None) -> Change:
    return Change(name, Operation.DELETE if value is None else Operation.SET, value)


async def create_mirrors(source: Client, destination: Client, settings: LinkSettings, link_name: str) -> Outcome:
    """Mirrors of the source's topics that the link's filters name and the destination lacks; raises ClientError."""
    here = await topics.list_topics(destination)
    outcome = FINE
    for topic in (await topics.list_topics(source)).values():
        name = settings.prefix + topic.name
        if topic.is_internal or name in here or not settings.create_topics.includes(topic.name):
            continue
        try:
            await create_mirror(destination, link_name, topic.name)
        except Refused as refused:
            exists = refused.code is ErrorCode.topic_already_exists
            outcome = Outcome(_EXISTS if exists else INTERNAL_ERROR, str(refused))
    return outcome
