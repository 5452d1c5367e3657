"""What a node's coordinators do, for its metrics."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from isthmus_model.clocks import MonotonicMs, Now

from isthmus_broker.core.coordinator.result import Note, RequestContext
from isthmus_broker.core.coordinator.runtime import Shard

LOAD_WINDOW_MS: Final = 30_000
"""The time for which Kafka remembers how long a load took."""
_REBALANCED: Final = "rebalanced"
_NEW_EPOCH: Final = "group epoch"


class LoadTime(NamedTuple):
    """How long partitions took to load."""

    max_ms: int
    average_ms: float


class LoadTimes:
    """The loads of a coordinator topic's partitions that ended a short time ago."""

    def __init__(self) -> None:
        self._loads: deque[tuple[MonotonicMs, int]] = deque()

    def record(self, began: MonotonicMs, ended: MonotonicMs) -> None:
        """A partition was loaded."""
        self._loads.append((ended, ended - began))

    def recent(self, now: MonotonicMs) -> LoadTime | None:
        """The longest and the average of the last 30 seconds; None if nothing was loaded."""
        while self._loads and now - self._loads[0][0] > LOAD_WINDOW_MS:
            self._loads.popleft()
        if not self._loads:
            return None
        took = [milliseconds for _, milliseconds in self._loads]
        return LoadTime(max(took), sum(took) / len(took))


@dataclass(slots=True)
class Verifications:
    """Checks of this node's leaders with transaction coordinators."""

    responses: int = 0
    milliseconds: int = 0
    """From the check to its response, all together."""
    failures: int = 0
    """Partitions that were not verified."""


class TransactionCounts(NamedTuple):
    """What a node coordinates."""

    by_state: Mapping[str, int]
    """Transactional ids by the name of their state."""
    illegal_transitions: int
    markers_without_leader: int
    """Markers that wait for a leader of their partition."""
    load_time: LoadTime | None
    verifications: Verifications


class GroupCounts(NamedTuple):
    """The groups that a node coordinates, except those that it is still loading."""

    by_state: Mapping[tuple[str, str], int]
    """By type and state, as ListGroups names them."""
    rebalances: Mapping[str, int]
    """By the type of the group."""
    partitions: Mapping[str, int]
    """Partitions of __consumer_offsets by state."""
    load_time: LoadTime | None


class Rebalances:
    """Rebalances by the type of the group: new generations of classic groups with their assignments, and new group epochs."""

    def __init__(self) -> None:
        self.by_type: Counter[str] = Counter()

    def note(self, shard: Shard[Any], note: Note) -> None:
        """Count a note of a shard that reports a rebalance whose records are in the log."""
        if note.event == _REBALANCED:
            self.by_type["classic"] += 1
        elif note.event == _NEW_EPOCH:
            from isthmus_broker.core.group.shard import GroupShard
            from isthmus_broker.core.group.streams.group import StreamsGroup

            assert isinstance(shard, GroupShard)
            group = shard.registry.find(note.subject)
            if group is not None:
                self.by_type["streams" if isinstance(group, StreamsGroup) else "consumer"] += 1


def count_groups(shards: Iterable[Shard[Any]], now: Now) -> Counter[tuple[str, str]]:
    """Groups by type and state, of committed records as ListGroups lists them."""
    from kio.schema.list_groups.v5.request import ListGroupsRequest
    from kio.schema.list_groups.v5.response import ListGroupsResponse

    every_group = ListGroupsRequest(states_filter=(), types_filter=())
    counts: Counter[tuple[str, str]] = Counter()
    for shard in shards:
        listed = shard.handle(0, every_group, RequestContext(api_version=5), now).response
        assert isinstance(listed, ListGroupsResponse)
        counts.update((group.group_type, group.group_state) for group in listed.groups)
    return counts
