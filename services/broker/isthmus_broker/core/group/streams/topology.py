"""The topology of a streams group, as its first member described it."""

from collections.abc import Mapping
from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode
from kio.schema.streams_group_heartbeat.v0 import request as wire

from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.records import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)


@dataclass(frozen=True, slots=True)
class Topology:
    """Subtopologies by id. Two topologies are equal if a member with one can work with the other."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @classmethod
    def of_record(cls, value: StreamsGroupTopologyValue) -> "Topology":
        """The topology of a record."""
        return cls(value.epoch, {each.subtopology_id: each for each in value.subtopologies})

    @classmethod
    def of_request(cls, topology: wire.Topology) -> "Topology":
        """The topology that a member sent; Kafka responds to these two mistakes with UNKNOWN_SERVER_ERROR."""
        subtopologies = {each.subtopology_id: _subtopology(each) for each in topology.subtopologies}
        if topology.epoch < 0 or len(subtopologies) != len(topology.subtopologies):
            raise CoordinatorError(ErrorCode.unknown_server_error)
        return cls(topology.epoch, subtopologies)

    def record_value(self) -> StreamsGroupTopologyValue:
        """The content of its record."""
        return StreamsGroupTopologyValue(self.epoch, tuple(self.subtopologies.values()))

    def required_topics(self) -> set[str]:
        """Every topic that must exist before tasks are assigned."""
        return {name for each in self.subtopologies.values() for name in (*sources(each), *changelogs(each))}

    def subtopology_of(self, source_topic: str) -> Subtopology | None:
        """The subtopology that reads the topic."""
        return next((each for each in self.subtopologies.values() if source_topic in sources(each)), None)


def sources(subtopology: Subtopology) -> tuple[str, ...]:
    """The topics that a subtopology reads, the repartition topics among them."""
    return (*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics))


def changelogs(subtopology: Subtopology) -> tuple[str, ...]:
    """The changelog topics of a subtopology's state stores."""
    return tuple(topic.name for topic in subtopology.state_changelog_topics)


def _subtopology(subtopology: wire.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=tuple(map(str, subtopology.source_topics)),
        source_topic_regex=subtopology.source_topic_regex,
        state_changelog_topics=tuple(map(_topic, subtopology.state_changelog_topics)),
        repartition_sink_topics=tuple(map(str, subtopology.repartition_sink_topics)),
        repartition_source_topics=tuple(map(_topic, subtopology.repartition_source_topics)),
        copartition_groups=tuple(
            CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
            for group in subtopology.copartition_groups
        ),
    )


def _topic(topic: wire.TopicInfo) -> TopicInfo:
    configs = tuple(KeyValue(config.key, config.value) for config in topic.topic_configs)
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)
