"""Links and mirror topics in the cluster's metadata: how their ConfigRecords are read and written.

They need no record types of their own, so that an Apache Kafka node that is a member of the cluster can replay and keep them: its replay
treats resource type 0 as UNKNOWN, which it stores and writes into its snapshots without further effect. Any other number of ours would
become that 0. So both have type 0, and the name distinguishes them. A mirror topic's record contains the topic's id: a topic created again
under the name is not a mirror topic. The record remains when the topic is stopped and even when its link is deleted: the log keeps the
source's offsets and epochs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from isthmus_wire.extensions.links import LinkError, LinkState, LinkTask, TaskState
from isthmus_wire.extensions.mirrors import MirrorError, MirrorState

from isthmus_broker.core.links.settings import LINK_CONFIGS, PAUSED
from isthmus_broker.core.links.stop import Stop
from isthmus_broker.core.metadata.image import ClusterImage, Resource
from isthmus_broker.core.metadata.schema import ConfigRecord
from isthmus_broker.core.replica.mirror_source import MirrorRole

OWN_RESOURCE: Final = 0
_LINK: Final = "link/"
_MIRROR: Final = "mirror/"
_TASK: Final = "task."


@dataclass(frozen=True, slots=True)
class Task:
    """The last reported state of a task of a link."""

    state: str = TaskState.UNKNOWN
    error: str = LinkError.NO_ERROR
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link with its settings as they were given, and its last reported state."""

    name: str
    id: UUID
    source_cluster_id: str
    settings: Mapping[str, str]
    reported: str = LinkState.UNKNOWN
    error: str = LinkError.NO_ERROR
    error_message: str = ""
    tasks: Mapping[str, Task]

    @property
    def state(self) -> str:
        """The link's state; PAUSED overrides the reported one."""
        paused = LINK_CONFIGS[PAUSED]
        given = self.settings.get(PAUSED)
        return LinkState.PAUSED if given is not None and paused.parse(given) else self.reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A mirror topic."""

    topic: str
    topic_id: UUID
    link_id: UUID
    link_name: str
    source_topic: str
    source_topic_id: UUID | None
    """None for a source that has no topic ids."""
    state: MirrorState
    since_ms: int
    error: str = MirrorError.NO_ERROR
    error_message: str = ""
    stop: Stop | None = None


# -- reading -----------------------------------------------------------------------------------------------------------------


def link_named(image: ClusterImage, name: str) -> Link | None:
    """The link of that name."""
    keys = image.config(OWN_RESOURCE, _LINK + name)
    return _link(name, keys) if keys else None


def links_of(image: ClusterImage) -> list[Link]:
    """All links, by name."""
    return [_link(name, image.config(OWN_RESOURCE, _LINK + name)) for name in _names(image, _LINK)]


def link_with_id(image: ClusterImage, link_id: UUID) -> Link | None:
    """The link of that id."""
    return next((link for link in links_of(image) if link.id == link_id), None)


def mirror_of(image: ClusterImage, topic: str) -> Mirror | None:
    """The topic's mirror, also if it was stopped; None for a topic that never was one."""
    keys = image.config(OWN_RESOURCE, _MIRROR + topic)
    mirror = _mirror(topic, keys) if keys else None
    return mirror if mirror is not None and image.topics.ids.get(topic) == mirror.topic_id else None


def copied(image: ClusterImage, topic: str) -> Mirror | None:
    """The topic's mirror if it is a copy now, so that only its source may change it."""
    mirror = mirror_of(image, topic)
    return None if mirror is None or mirror.state is MirrorState.STOPPED else mirror


def mirrors_of(image: ClusterImage) -> list[Mirror]:
    """All mirror topics, including stopped ones, by name."""
    mirrors = (mirror_of(image, topic) for topic in _names(image, _MIRROR))
    return [mirror for mirror in mirrors if mirror is not None]


def state_of(image: ClusterImage, mirror: Mirror) -> MirrorState:
    """The effective state, in responses and for workers."""
    return state_under(link_named(image, mirror.link_name), mirror)


def state_under(link: Link | None, mirror: Mirror) -> MirrorState:
    """A link that is paused or has failed pauses its active topics."""
    if link is None or mirror.state is not MirrorState.ACTIVE:
        return mirror.state
    state = link.state
    if state == LinkState.PAUSED:
        return MirrorState.LINK_PAUSED
    return MirrorState.LINK_FAILED if state == LinkState.FAILED else mirror.state


def mirror_role(image: ClusterImage, topic: str) -> MirrorRole | None:
    """The consequences for the topic's partitions; None for a topic that never was a mirror topic."""
    mirror = mirror_of(image, topic)
    if mirror is None:
        return None
    return MirrorRole(mirror.link_id, mirror.link_name, state_of(image, mirror), mirror.stop)


def mirrors_touched(image: ClusterImage, resource: Resource) -> list[str]:
    """The mirror topics that may be affected by a change of this resource."""
    if resource.type != OWN_RESOURCE:
        return []
    if resource.name.startswith(_MIRROR):
        return [resource.name.removeprefix(_MIRROR)]
    link = resource.name.removeprefix(_LINK)
    return [mirror.topic for mirror in mirrors_of(image) if mirror.link_name == link]


def _names(image: ClusterImage, prefix: str) -> list[str]:
    own = (resource.name for resource in image.configs if resource.type == OWN_RESOURCE)
    return sorted(name.removeprefix(prefix) for name in own if name.startswith(prefix))


def _link(name: str, keys: Mapping[str, str]) -> Link:
    return Link(
        name=name,
        id=UUID(keys["link.id"]),
        source_cluster_id=keys.get("source.cluster.id", ""),
        settings={key: value for key, value in keys.items() if key in LINK_CONFIGS},
        reported=keys.get("link.state", LinkState.UNKNOWN),
        error=keys.get("link.error", LinkError.NO_ERROR),
        error_message=keys.get("link.error.message", ""),
        tasks={
            task: Task(*json.loads(keys[_TASK + task])) if _TASK + task in keys else Task() for task in sorted(LinkTask)
        },
    )


def _mirror(topic: str, keys: Mapping[str, str]) -> Mirror:
    stopped = "stop.leader.epoch" in keys
    return Mirror(
        topic=topic,
        topic_id=UUID(keys["topic.id"]),
        link_id=UUID(keys["link.id"]),
        link_name=keys["link.name"],
        source_topic=keys["source.topic"],
        source_topic_id=UUID(keys["source.topic.id"]) if "source.topic.id" in keys else None,
        state=MirrorState(keys["state"]),
        since_ms=int(keys["state.since.ms"]),
        error=keys.get("error", MirrorError.NO_ERROR),
        error_message=keys.get("error.message", ""),
        stop=Stop(int(keys["stop.partitions"]), int(keys["stop.leader.epoch"])) if stopped else None,
    )


# -- writing -----------------------------------------------------------------------------------------------------------------


def link_records(image: ClusterImage, link: Link) -> list[ConfigRecord]:
    """The records that turn the image's link of that name into this one."""
    values = {
        **link.settings,
        "link.id": str(link.id),
        "source.cluster.id": link.source_cluster_id or None,
        "link.state": link.reported,
        "link.error": link.error,
        "link.error.message": link.error_message or None,
        **{
            _TASK + name: json.dumps([task.state, task.error, task.error_message])
            for name, task in link.tasks.items()
            if task != Task()
        },
    }
    return _difference(image, _LINK + link.name, values)


def no_link_records(image: ClusterImage, link: Link) -> list[ConfigRecord]:
    """The records that remove the link."""
    return _difference(image, _LINK + link.name, {})


def mirror_records(image: ClusterImage, mirror: Mirror) -> list[ConfigRecord]:
    """The records that turn the image's mirror topic of that name into this one."""
    stop = mirror.stop
    values = {
        "topic.id": str(mirror.topic_id),
        "link.id": str(mirror.link_id),
        "link.name": mirror.link_name,
        "source.topic": mirror.source_topic,
        "source.topic.id": None if mirror.source_topic_id is None else str(mirror.source_topic_id),
        "state": str(mirror.state),
        "state.since.ms": str(mirror.since_ms),
        "error": mirror.error,
        "error.message": mirror.error_message or None,
        "stop.partitions": None if stop is None else str(stop.partitions),
        "stop.leader.epoch": None if stop is None else str(stop.leader_epoch),
    }
    return _difference(image, _MIRROR + mirror.topic, values)


def no_mirror_records(image: ClusterImage, topic: str) -> list[ConfigRecord]:
    """The records that remove the mirror topic's state; none for a topic that was no mirror topic."""
    return _difference(image, _MIRROR + topic, {})


def _difference(image: ClusterImage, name: str, values: Mapping[str, str | None]) -> list[ConfigRecord]:
    """The records from the current values to the new ones."""
    current = image.config(OWN_RESOURCE, name)
    return [
        ConfigRecord(resource_type=OWN_RESOURCE, resource_name=name, name=key, value=values.get(key))
        for key in sorted(current.keys() | values.keys())
        if values.get(key) != current.get(key)
    ]
