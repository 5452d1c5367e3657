"""The partition counts of a topology's internal topics.

A repartition topic without a prescribed count gets that of the subtopologies that write it, the largest of their source topics; topics
that are copartitioned get the same count; a changelog gets as many as its subtopology has tasks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.records import Subtopology
from isthmus_broker.core.group.streams.topology import Topology, changelogs, sources


class IncorrectlyPartitioned(Exception):
    """Topics whose partition counts do not fit together; the members wait until that has changed."""


@dataclass(slots=True)
class PartitionCounts:
    """Counts by topic: those of existing topics, and those decided for the others."""

    existing: Callable[[str], int | None]
    decided: dict[str, int]

    def find(self, topic: str) -> int | None:
        """The count of an existing topic, or the decided one."""
        count = self.existing(topic)
        return self.decided.get(topic) if count is None else count

    def count(self, topic: str) -> int:
        """The same for a topic that must have one."""
        count = self.find(topic)
        if count is None or count < 1:  # a prescribed count that is negative, or a source that nothing writes
            raise CoordinatorError(ErrorCode.unknown_server_error)
        return count

    def tasks(self, subtopology: Subtopology) -> int:
        """The number of tasks of a subtopology."""
        names = sources(subtopology)
        if not names:
            raise _invalid(f"No source topics found for subtopology {subtopology.subtopology_id}")
        return max(map(self.count, names))


def decide_counts(topology: Topology, existing: Callable[[str], int | None]) -> PartitionCounts:
    """Decide the counts of all internal topics; their source topics must exist."""
    counts = PartitionCounts(existing, {})
    subtopologies = tuple(topology.subtopologies.values())
    counts.decided.update(_repartition_counts(subtopologies, existing))
    for subtopology in subtopologies:
        for topics in _copartitioned(subtopology):
            counts.decided.update(_same_counts(topics, subtopologies, counts))
    for subtopology in subtopologies:
        tasks = counts.tasks(subtopology)
        counts.decided.update(dict.fromkeys(changelogs(subtopology), tasks))
    return counts


def _repartition_counts(
    subtopologies: tuple[Subtopology, ...], existing: Callable[[str], int | None]
) -> Mapping[str, int]:
    prescribed = {
        topic.name: topic.partitions
        for subtopology in subtopologies
        for topic in subtopology.repartition_source_topics
        if topic.partitions != 0
    }
    counts = dict(prescribed)
    waiting = [(each, sink) for each in subtopologies for sink in each.repartition_sink_topics if sink not in counts]
    while waiting:
        still_waiting = []
        for subtopology, sink in waiting:
            known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
            known += [existing(topic) for topic in subtopology.source_topics]
            candidates = [count for count in known if count is not None]
            if candidates:
                counts.setdefault(sink, max(candidates))
            elif sink not in counts:
                still_waiting.append((subtopology, sink))
        if len(still_waiting) == len(waiting):
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that "
                "cannot be resolved."
            )
        waiting = still_waiting
    if any(topic.name not in counts for each in subtopologies for topic in each.repartition_source_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used "
            "as a sink topic."
        )
    return counts


def _copartitioned(subtopology: Subtopology) -> Iterable[set[str]]:
    for group in subtopology.copartition_groups:
        indexes = (group.source_topics, group.repartition_source_topics)
        names = (subtopology.source_topics, [topic.name for topic in subtopology.repartition_source_topics])
        for positions, available in zip(indexes, names, strict=True):
            if any(not 0 <= position < len(available) for position in positions):
                raise CoordinatorError(ErrorCode.unknown_server_error)
        yield {
            available[position] for positions, available in zip(indexes, names, strict=True) for position in positions
        }


def _same_counts(
    topics: set[str], subtopologies: tuple[Subtopology, ...], counts: PartitionCounts
) -> Mapping[str, int]:
    """The counts of copartitioned topics; those of other topics than repartition topics are given."""
    if not topics:
        return {}
    internal = [topic for each in subtopologies for topic in each.repartition_source_topics]
    prescribed = {topic.name for topic in internal if topic.partitions != 0}
    names = {topic.name for topic in internal}
    flexible = {topic: counts.count(topic) for topic in sorted(topics & names)}
    given = {topic: counts.count(topic) for topic in sorted(topics - names)}
    if given:
        agreed = _agreed(given, given)
    elif prescribed:  # of the whole topology, not only of these topics: so does Kafka
        agreed = _agreed({topic: counts.count(topic) for topic in sorted(prescribed)}, flexible)
    else:
        agreed = max(flexible.values())
    for topic, count in flexible.items():
        if topic in prescribed and count != agreed:
            raise IncorrectlyPartitioned(
                f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match number of partitions [{agreed}] of the "
                "source topic."
            )
    return dict.fromkeys(flexible, agreed)


def _agreed(counts: Mapping[str, int], named: Mapping[str, int]) -> int:
    """The one count of all; the error names the topics of the group."""
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{topic}={count}" for topic, count in named.items())
        raise IncorrectlyPartitioned(f"Following topics do not have the same number of partitions: [{{{listed}}}]")
    return next(iter(counts.values()))


def _invalid(message: str) -> CoordinatorError:
    return CoordinatorError(ErrorCode.streams_invalid_topology, message)
