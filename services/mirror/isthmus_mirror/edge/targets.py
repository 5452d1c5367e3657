"""The partitions that a mirror copies."""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from isthmus_client.client import Client
from isthmus_client.metadata import TopicPartition

from isthmus_mirror.core.partition import PartitionCopy
from isthmus_mirror.core.progress import Copy, Place
from isthmus_mirror.edge.latency import Latency


class Route(NamedTuple):
    """Where a flow copies from and to, and what it reads."""

    name: str
    source: Client
    target: Client
    read_committed: bool
    begin_at_end: bool


C_co = TypeVar("C_co", bound=PartitionCopy, covariant=True)


class Assignment(NamedTuple):
    """A partition assigned to this mirror. A recreated topic on either side is another assignment."""

    source: TopicPartition
    source_id: UUID | None
    target: TopicPartition
    target_id: UUID | None
    producer_id: int
    target_producer_id: int

    @property
    def place(self) -> Place:
        """The source partition."""
        return Place(*self.source)

    @property
    def as_copy(self) -> Copy:
        """The copy, as progress records identify it."""
        return Copy(self.place, self.target_id)


@dataclass(slots=True, eq=False)
class Target(Generic[C_co]):
    """An assigned partition and its copy."""

    assignment: Assignment
    copy: C_co
    is_looking_up: bool = False
    latency: Latency = field(default_factory=Latency)
    failure_logged: bool = False


def is_same_source(source: Client, assignment: Assignment) -> bool:
    """Whether the source topic is still the assigned one: a recreated topic has other records at the same offsets."""
    current = source.view.topics.get(assignment.source.topic)
    return current is None or current.topic_id == assignment.source_id
