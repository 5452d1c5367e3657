"""Topics of a flow: choose those to copy, create and grow copies, and sync configs."""

import logging
from collections.abc import Iterable, Mapping

from isthmus_client.admin import configs, topics
from isthmus_client.admin.configs import Change, Resource
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_client.work_sharing import Share
from isthmus_copying.edge.topic_configs import change, set_on_topics
from isthmus_model.config_resources import ResourceType
from isthmus_wire.errors import ErrorCode

from isthmus_mirror.core.producer_ids import mirror_producer_id
from isthmus_mirror.core.settings import FlowSettings
from isthmus_mirror.core.topic_configs import KEPT, config_changes, creation_configs
from isthmus_mirror.edge.targets import Assignment

logger = logging.getLogger(__name__)


async def copied_topics(source: Client, settings: FlowSettings) -> dict[str, Topic]:
    """The source's topics that the flow copies, by name; raises ClientError."""
    listed = await topics.list_topics(source)
    return {name: topic for name, topic in listed.items() if not topic.is_internal and settings.takes_topic(name)}


async def make_copies(source: Client, target: Client, settings: FlowSettings, copied: Mapping[str, Topic]) -> None:
    """Create missing copies and add partitions that their sources have; raises ClientError if a cluster is unreachable."""
    there = await topics.list_topics(target)
    remote = {name: settings.naming.remote(name) for name in copied}
    missing = [name for name in copied if remote[name] not in there]
    theirs = await set_on_topics(source, missing)
    made = [
        topics.NewTopic(
            remote[name],
            len(copied[name].partitions),
            settings.replication_factor,
            configs=creation_configs(theirs.get(name, {}), settings.configs_exclude),
        )
        for name in missing
    ]
    if made:
        _log_refusals(settings, await topics.create(target, made))
    grown = {
        remote[name]: len(topic.partitions)
        for name, topic in copied.items()
        if remote[name] in there and len(there[remote[name]].partitions) < len(topic.partitions)
    }
    if grown:
        logger.info("%s: copies grow with their sources: %s", settings.name, grown)
        _log_refusals(settings, await topics.create_partitions(target, grown))


def _log_refusals(settings: FlowSettings, results: Mapping[str, ClientError | None]) -> None:
    for refused in results.values():
        exists = getattr(refused, "code", None) is ErrorCode.topic_already_exists
        if refused is not None and not exists:
            logger.warning("%s: %s", settings.name, refused)


async def assigned_partitions(
    source: Client, target: Client, settings: FlowSettings, copied: Mapping[str, Topic], share: Share
) -> list[Assignment]:
    """The partitions on both sides that belong to this share."""
    names = [settings.naming.remote(name) for name in copied]
    view = await target.refresh(names)
    ours, theirs = source.view.cluster_id or "", view.cluster_id or ""
    assignments: list[Assignment] = []
    for name, topic in copied.items():
        copy = view.topics.get(settings.naming.remote(name))
        if copy is None:
            continue
        producer_id = mirror_producer_id(ours, name, topic.topic_id)
        back = mirror_producer_id(theirs, copy.name, copy.topic_id)
        assignments += (
            Assignment(
                TopicPartition(name, index),
                topic.topic_id,
                TopicPartition(copy.name, index),
                copy.topic_id,
                producer_id,
                back,
            )
            for index in topic.partitions
            if index in copy.partitions and share.holds_partition(copy.name, index)
        )
    return assignments


async def sync_configs(source: Client, target: Client, settings: FlowSettings, copied: Iterable[str]) -> None:
    """Copy the configs of sources that are not excluded; raises ClientError if a cluster is unreachable."""
    await _change_configs(source, target, settings, list(copied), only_kept=False)


async def keep_configs(source: Client, target: Client, settings: FlowSettings, copied: Iterable[str]) -> None:
    """Restore the configs that keep a copy's batches unchanged."""
    await _change_configs(source, target, settings, list(copied), only_kept=True)


async def _change_configs(
    source: Client, target: Client, settings: FlowSettings, names: list[str], *, only_kept: bool
) -> None:
    remote = {name: settings.naming.remote(name) for name in names}
    theirs = {} if only_kept else await set_on_topics(source, names)
    ours = await set_on_topics(target, remote.values())
    changes: dict[Resource, list[Change]] = {}
    for name, copy in remote.items():
        if copy not in ours or not (only_kept or name in theirs):
            continue
        current = {key: value for key, value in ours[copy].items() if not only_kept or key in KEPT}
        updates = config_changes(theirs.get(name, {}), current, settings.configs_exclude)
        if updates:
            changes[Resource(ResourceType.TOPIC, copy)] = [change(key, value) for key, value in updates.items()]
    refused = await configs.alter(target, changes) if changes else {}
    for refusal in refused.values():
        if refusal is not None:
            logger.warning("%s: configs of a copy: %s", settings.name, refusal)
