"""The input and output of a server-side assignor."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from uuid import UUID

from isthmus_broker.core.group.member import Partitions

Targets = dict[str, dict[UUID, frozenset[int]]]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member: the existing topics it subscribes to, and its target so far."""

    member_id: str
    instance_id: str | None
    topic_ids: Set[UUID]
    target: Partitions


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group: its members, the partition counts of all their topics, and whether all subscribe to the same."""

    members: tuple[MemberSpec, ...]
    partitions: Mapping[UUID, int]
    homogeneous: bool
