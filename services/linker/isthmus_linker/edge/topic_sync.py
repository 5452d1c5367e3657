"""Sync topic configs of a link, and create its mirror topics automatically."""

from collections.abc import Mapping
from typing import Final

from isthmus_client.admin import configs, topics
from isthmus_client.admin.configs import Change, Resource
from isthmus_client.admin.mirrors import create_mirror
from isthmus_client.client import Client
from isthmus_client.errors import Refused
from isthmus_copying.edge.topic_configs import change, set_on_topics
from isthmus_model.config_resources import ResourceType
from isthmus_wire.errors import ErrorCode

from isthmus_linker.core.settings import LinkSettings
from isthmus_linker.core.topic_configs import config_changes
from isthmus_linker.edge.outcome import FINE, INTERNAL_ERROR, Outcome

_EXISTS: Final = "TOPIC_EXISTS_ERROR"


async def sync_topic_configs(
    source: Client, destination: Client, settings: LinkSettings, mirrors: Mapping[str, str]
) -> Outcome:
    """Sync the configs of these mirror topics, by source topic; raises ClientError if a cluster is unreachable."""
    theirs = await set_on_topics(source, mirrors)
    ours = await set_on_topics(destination, mirrors.values())
    changes: dict[Resource, list[Change]] = {}
    for topic, mirror in mirrors.items():
        if topic in theirs and mirror in ours:
            topic_changes = config_changes(theirs[topic], ours[mirror], settings.configs)
            if topic_changes:
                changes[Resource(ResourceType.TOPIC, mirror)] = [
                    change(name, value) for name, value in topic_changes.items()
                ]
    refused = await configs.alter(destination, changes) if changes else {}
    failure = next((refusal for refusal in refused.values() if refusal is not None), None)
    return FINE if failure is None else Outcome(INTERNAL_ERROR, str(failure))


async def create_mirrors(source: Client, destination: Client, settings: LinkSettings, link_name: str) -> Outcome:
    """Create missing mirror topics of the source's topics that match the link's filters; raises ClientError."""
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
