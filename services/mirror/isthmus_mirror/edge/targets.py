"""What a mirror is to copy, partition by partition."""

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition

from isthmus_mirror.core.partition import PartitionCopy
from isthmus_mirror.core.progress import Copy, Place
from isthmus_mirror.edge.latency import Latency


class Assignment(NamedTuple):
    """A partition that this mirror is to copy. It is another task when either topic is made anew."""

    source: TopicPartition
    source_id: UUID | None
    target: TopicPartition
    target_id: UUID | None
    producer_id: int
    target_producer_id: int

    @property
    def place(self) -> Place:
        """Of the source."""
        return Place(*self.source)

    @property
    def as_copy(self) -> Copy:
        """As progress names it."""
        return Copy(self.place, self.target_id)


@dataclass(slots=True, eq=False)
class Target:
    """A partition that is copied."""

    wanted: Assignment
    copy: PartitionCopy
    is_looking_up: bool = False
    latency: Latency = field(default_factory=Latency)
    failure_told: bool = False


def is_same_source(source: Client, wanted: Assignment) -> bool:
    """A topic made anew under the name has other records at the same offsets. Sources without ids cannot tell."""
    known = source.view.topics.get(wanted.source.topic)
    return known is None or known.topic_id == wanted.source_id
