"""Collects the changes of records over one image and makes the next image."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from uuid import UUID

from isthmus_model.config_resources import ResourceType

from isthmus_broker.core.metadata.image import ClusterImage, Partition, Resource, Topic, TopicsImage

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Edited(Generic[K, V]):
    """A mapping with changes over a base mapping, which is never modified, and copied only when something changes."""

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._edited: dict[K, V] | None = None

    def get(self, key: K) -> V | None:
        return self.result().get(key)

    def set(self, key: K, value: V) -> None:
        self._copy()[key] = value

    def drop(self, key: K) -> None:
        self._copy().pop(key, None)

    def result(self) -> Mapping[K, V]:
        return self._base if self._edited is None else self._edited

    def _copy(self) -> dict[K, V]:
        if self._edited is None:
            self._edited = dict(self._base)
        return self._edited


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two images, for subscribers of the metadata; a removed key is looked up in the old image."""

    before: ClusterImage
    after: ClusterImage
    features: frozenset[str]
    brokers: frozenset[int]
    controllers: frozenset[int]
    topics_created: frozenset[UUID]
    topics_deleted: frozenset[UUID]
    partitions: Mapping[UUID, frozenset[int]]
    """New or changed partitions of topics that exist."""
    configs: frozenset[Resource]
    client_quotas: bool
    producer_ids: bool
    acls: bool
    scram: bool
    tokens: bool


def changes_between(before: ClusterImage, after: ClusterImage) -> Changes:
    """Every difference; parts that the two images share are skipped."""
    return Changes(
        before=before,
        after=after,
        features=_different(before.features, after.features),
        brokers=_different(before.brokers, after.brokers),
        controllers=_different(before.controllers, after.controllers),
        topics_created=_only_in(after.topics, before.topics),
        topics_deleted=_only_in(before.topics, after.topics),
        partitions=_different_partitions(before.topics, after.topics),
        configs=_different(before.configs, after.configs),
        client_quotas=before.client_quotas != after.client_quotas,
        producer_ids=before.producer_ids != after.producer_ids,
        acls=before.acls != after.acls,
        scram=before.scram != after.scram,
        tokens=before.tokens != after.tokens,
    )


def _different(before: Mapping[K, V], after: Mapping[K, V]) -> frozenset[K]:
    if before is after:
        return frozenset()
    return frozenset(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _only_in(these: TopicsImage, others: TopicsImage) -> frozenset[UUID]:
    return frozenset() if these is others else frozenset(these.by_id.keys() - others.by_id.keys())


def _different_partitions(before: TopicsImage, after: TopicsImage) -> dict[UUID, frozenset[int]]:
    if before is after:
        return {}
    different = {}
    for topic_id, topic in after.by_id.items():
        old = before.by_id.get(topic_id)
        if old is topic:
            continue
        old_partitions: Mapping[int, Partition] = {} if old is None else old.partitions
        changed = _different(old_partitions, topic.partitions)
        if changed:
            different[topic_id] = changed
    return different


class ClusterDelta:
    """Changes over an image, collected by `replay` and turned into the next image by `apply`."""

    def __init__(self, base: ClusterImage) -> None:
        self._base = base
        self.features = Edited(base.features)
        self.brokers = Edited(base.brokers)
        self.controllers = Edited(base.controllers)
        self.topic_ids = Edited(base.topics.ids)
        self.topics = Edited(base.topics.by_id)
        self.configs = Edited(base.configs)
        self.client_quotas = Edited(base.client_quotas)
        self.producer_ids = base.producer_ids
        self.acls = Edited(base.acls)
        self.scram = Edited(base.scram)
        self.tokens = Edited(base.tokens)
        self._partitions: dict[UUID, Edited[int, Partition]] = {}

    def partitions(self, topic_id: UUID) -> Edited[int, Partition]:
        """The partitions of a topic, for changes."""
        if topic_id not in self._partitions:
            topic = self.topics.get(topic_id)
            assert topic is not None, f"a record names topic {topic_id}, which does not exist"
            self._partitions[topic_id] = Edited(topic.partitions)
        return self._partitions[topic_id]

    def create_topic(self, name: str, topic_id: UUID) -> None:
        assert self.topic_ids.get(name) is None, f"topic {name} exists"
        self.topic_ids.set(name, topic_id)
        self.topics.set(topic_id, Topic(name, topic_id, {}))

    def delete_topic(self, topic_id: UUID) -> None:
        topic = self.topics.get(topic_id)
        assert topic is not None, f"a record deletes topic {topic_id}, which does not exist"
        self.topics.drop(topic_id)
        self.topic_ids.drop(topic.name)
        self._partitions.pop(topic_id, None)
        self.configs.drop(Resource(ResourceType.TOPIC, topic.name))

    def apply(self) -> ClusterImage:
        for topic_id, partitions in self._partitions.items():
            topic = self.topics.get(topic_id)
            assert topic is not None, "partitions are forgotten with their topic"
            self.topics.set(topic_id, replace(topic, partitions=partitions.result()))
        self._partitions.clear()
        topics = TopicsImage(self.topics.result(), self.topic_ids.result())
        if topics.by_id is self._base.topics.by_id:
            topics = self._base.topics  # the same object shows subscribers that nothing changed
        return ClusterImage(
            features=self.features.result(),
            brokers=self.brokers.result(),
            controllers=self.controllers.result(),
            topics=topics,
            configs=self.configs.result(),
            client_quotas=self.client_quotas.result(),
            producer_ids=self.producer_ids,
            acls=self.acls.result(),
            scram=self.scram.result(),
            tokens=self.tokens.result(),
        )
