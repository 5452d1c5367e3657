"""Which replica of a partition should lead: one in the region liked best, then the first in the assignment, an observer last of all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from isthmus_model.config_resources import ResourceType
from isthmus_model.regions import rank_of, region_of

from isthmus_broker.core.config.definitions.own import LEADER_PREFERENCE
from isthmus_broker.core.config.describe import effective_topic_text
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext


def preference_of(text: str | None) -> tuple[str, ...]:
    """The regions that a setting names, in order."""
    return tuple(region for part in (text or "").split(",") if (region := part.strip()))


def topic_preference(image: ClusterImage, context: ControllerContext, topic: str) -> tuple[str, ...]:
    """The regions in which a topic should be led, from its own settings or else its brokers'."""
    settings = image.config(ResourceType.TOPIC, topic)
    return preference_of(effective_topic_text(layers_of(image, context), settings, LEADER_PREFERENCE))


def leading_order(
    image: ClusterImage, replicas: Iterable[int], observers: Collection[int], preference: Sequence[str]
) -> tuple[int, ...]:
    """The replicas, the one that should lead first."""
    if not observers and not preference:
        return tuple(replicas)

    def badness(replica: int) -> tuple[bool, int]:
        broker = image.brokers.get(replica)
        return replica in observers, rank_of("" if broker is None else region_of(broker.rack), preference)

    return tuple(sorted(replicas, key=badness))
