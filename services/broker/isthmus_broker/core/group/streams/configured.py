"""A topology with the cluster's topics: how many tasks each subtopology has, or what keeps the group from starting."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from isthmus_broker.core.group.streams.partition_counts import IncorrectlyPartitioned, PartitionCounts, decide_counts
from isthmus_broker.core.group.streams.records import Subtopology, TopicInfo
from isthmus_broker.core.group.streams.topology import Topology, sources
from isthmus_broker.core.group.view import ClusterView

NAMED_TOPICS_MAX = 3
"""Topics that a status names; further ones are counted."""


class Status(IntEnum):
    """What a heartbeat's response reports beside the assignment; the numbers are those of the protocol."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose internal topics have their partition counts."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]

    @property
    def is_stateful(self) -> bool:
        """Whether its tasks have state, and so may have standbys."""
        return bool(self.state_changelog_topics)

    @property
    def all_sources(self) -> tuple[str, ...]:
        """The topics that its tasks read."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_source_topics))


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The outcome. `subtopologies` is None if the tasks are not known."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing_topics: tuple[TopicInfo, ...] = ()
    problem: tuple[Status, str] | None = field(default=None)

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


def configure(topology: Topology, view: ClusterView) -> ConfiguredTopology:
    """Compare a topology with the existing topics; CoordinatorError if it cannot work with any."""
    missing = sorted(
        name for each in topology.subtopologies.values() for name in each.source_topics if view.topic(name) is None
    )
    if missing:
        detail = f"Source topics {_summary(dict.fromkeys(missing))} are missing."
        return ConfiguredTopology(topology.epoch, None, problem=(Status.MISSING_SOURCE_TOPICS, detail))

    def existing(name: str) -> int | None:
        topic = view.topic(name)
        return None if topic is None else topic.partitions

    try:
        counts = decide_counts(topology, existing)
        subtopologies = {
            name: _configured(topology.subtopologies[name], counts) for name in sorted(topology.subtopologies)
        }
        to_create = _missing_topics(subtopologies, topology, view)
    except IncorrectlyPartitioned as wrong:
        return ConfiguredTopology(topology.epoch, None, problem=(Status.INCORRECTLY_PARTITIONED_TOPICS, str(wrong)))
    problem = None
    if to_create:
        problem = (Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(to_create)}")
    return ConfiguredTopology(topology.epoch, subtopologies, tuple(to_create.values()), problem)


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> ConfiguredSubtopology:
    def topic(info: TopicInfo) -> TopicInfo:
        partitions = info.partitions or counts.decided[info.name]
        return TopicInfo(info.name, partitions, info.replication_factor, info.topic_configs)

    return ConfiguredSubtopology(
        tasks=max(map(counts.count, sources(subtopology))),
        source_topics=tuple(sorted(subtopology.source_topics)),
        repartition_source_topics=tuple(map(topic, sorted(subtopology.repartition_source_topics, key=_name))),
        repartition_sink_topics=tuple(sorted(subtopology.repartition_sink_topics)),
        state_changelog_topics=tuple(map(topic, sorted(subtopology.state_changelog_topics, key=_name))),
    )


def _name(topic: TopicInfo) -> str:
    return topic.name


def _missing_topics(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, view: ClusterView
) -> dict[str, TopicInfo]:
    expected = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
    }
    for name in sorted(topology.required_topics() & expected.keys()):
        topic, count = view.topic(name), expected[name].partitions
        if topic is None:
            continue
        if topic.partitions != count:
            raise IncorrectlyPartitioned(
                f"Existing topic {name} has different number of partitions: expected {count}, found {topic.partitions}"
            )
        del expected[name]
    return {name: expected[name] for name in sorted(expected)}


def _summary(topics: Collection[str]) -> str:
    named = ", ".join(list(topics)[:NAMED_TOPICS_MAX])
    others = len(topics) - NAMED_TOPICS_MAX
    return f"{named} and {others} additional topics" if others > 0 else named
