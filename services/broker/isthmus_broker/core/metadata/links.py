"""Links and mirror topics in the cluster's metadata: how their ConfigRecords are read and written.

They need no record types of their own, so that an Apache Kafka node that is a member of the cluster can replay and keep them: its replay
takes resource type 0 as UNKNOWN, which it stores, writes into its snapshots, and does nothing with. Any other number of ours it would turn
into that 0. So both have type 0, and the name says which is meant. A mirror topic's record names the topic's id: a topic made anew under
the name is none. It stays when the topic is stopped and even when its link is deleted: the log keeps the source's offsets and epochs.
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
    """What a worker last said of a task of a link."""

    state: str = TaskState.UNKNOWN
    error: str = LinkError.NO_ERROR
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link with its settings as they were given, and what was last reported of it."""

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
        """A paused link is nothing else."""
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
    """What the topic is a mirror of, if it is or was one."""
    keys = image.config(OWN_RESOURCE, _MIRROR + topic)
    mirror = _mirror(topic, keys) if keys else None
    return mirror if mirror is not None and image.topics.ids.get(topic) == mirror.topic_id else None


def copied(image: ClusterImage, topic: str) -> Mirror | None:
    """What the topic is a mirror of, if it is one now, and so its source's to change."""
    mirror = mirror_of(image, topic)
    return None if mirror is None or mirror.state is MirrorState.STOPPED else mirror


def mirrors_of(image: ClusterImage) -> list[Mirror]:
    """All topics that are or were mirrors, by name."""
    found = (mirror_of(image, topic) for topic in _names(image, _MIRROR))
    return [mirror for mirror in found if mirror is not None]


def state_of(image: ClusterImage, mirror: Mirror) -> MirrorState:
    """The state that is told, and obeyed."""
    return state_under(link_named(image, mirror.link_name), mirror)


def state_under(link: Link | None, mirror: Mirror) -> MirrorState:
    """A link that is paused or has failed holds up its active topics."""
    if link is None or mirror.state is not MirrorState.ACTIVE:
        return mirror.state
    state = link.state
    if state == LinkState.PAUSED:
        return MirrorState.LINK_PAUSED
    return MirrorState.LINK_FAILED if state == LinkState.FAILED else mirror.state


def mirror_role(image: ClusterImage, topic: str) -> MirrorRole | None:
    """What being a mirror topic means for its partitions; None for a topic that never was one."""
    mirror = mirror_of(image, topic)
    if mirror is None:
        return None
    return MirrorRole(mirror.link_id, mirror.link_name, state_of(image, mirror), mirror.stop)


def mirrors_touched(image: ClusterImage, resource: Resource) -> list[str]:
    """The mirror topics whose part may be another one when this resource has changed."""
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
    """What makes the image's link of that name this one."""
    wanted = {
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
    return _difference(image, _LINK + link.name, wanted)


def no_link_records(image: ClusterImage, link: Link) -> list[ConfigRecord]:
    """What makes the link disappear."""
    return _difference(image, _LINK + link.name, {})


def mirror_records(image: ClusterImage, mirror: Mirror) -> list[ConfigRecord]:
    """What makes the image's mirror topic of that name this one."""
    stop = mirror.stop
    wanted = {
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
    return _difference(image, _MIRROR + mirror.topic, wanted)


def no_mirror_records(image: ClusterImage, topic: str) -> list[ConfigRecord]:
    """What makes the mirror topic a topic of which nothing is known; none for one that was no mirror."""
    return _difference(image, _MIRROR + topic, {})


def _difference(image: ClusterImage, name: str, wanted: Mapping[str, str | None]) -> list[ConfigRecord]:
    """From what stands there to what is wanted."""
    current = image.config(OWN_RESOURCE, name)
    return [
        ConfigRecord(resource_type=OWN_RESOURCE, resource_name=name, name=key, value=wanted.get(key))
        for key in sorted(current.keys() | wanted.keys())
        if wanted.get(key) != current.get(key)
    ]
