"""The uniform assignor: members get equal numbers of partitions, and as few as possible move.

If all members subscribe to the same topics, counts differ by one at most. Otherwise partitions are assigned to the least loaded subscriber
and then moved from more to less loaded ones, topic by topic, until no move helps or a bounded number of rounds has passed. A former target
may contain partitions that are not in the view, after a failover to a broker with stale metadata: those are ignored.
"""

import heapq
from typing import Final
from uuid import UUID

from isthmus_broker.core.group.assign_spec import GroupSpec, MemberSpec, Targets

# Rounds of balancing over all topics. At the limit the assignment is valid but less even than possible.
BALANCE_ROUNDS_MAX: Final = 16

Partition = tuple[UUID, int]


def assign_uniform(group: GroupSpec) -> Targets:
    """New targets, close to the former ones."""
    members = sorted(group.members, key=lambda member: member.member_id)
    if not members:
        return {}
    return _assign_same(members, group) if group.homogeneous else _Heterogeneous(members, group).assign()


def _assign_same(members: list[MemberSpec], group: GroupSpec) -> Targets:
    quota, extra_left = divmod(sum(group.partitions.values()), len(members))
    kept: dict[str, list[Partition]] = {}
    taken: set[Partition] = set()
    wanting: list[tuple[str, int]] = []
    for place, member in enumerate(members):
        held = [
            (topic_id, partition)
            for topic_id in sorted(member.target)
            for partition in sorted(member.target[topic_id])
            if partition < group.partitions.get(topic_id, 0) and (topic_id, partition) not in taken
        ]
        room = quota + (extra_left > 0)
        kept[member.member_id] = held[:room]
        taken.update(held[:room])
        missing = room - len(kept[member.member_id])
        takes_extra = extra_left > 0
        if missing and takes_extra and len(members) - place > extra_left:
            missing -= 1  # a later member, which may own the extra partition already, can have it
            takes_extra = False
        if missing:
            wanting.append((member.member_id, missing))
        extra_left -= takes_extra
    free = iter(
        (topic_id, partition)
        for topic_id in sorted(group.partitions)
        for partition in range(group.partitions[topic_id])
        if (topic_id, partition) not in taken
    )
    for member_id, missing in wanting:
        kept[member_id] += [next(free) for _ in range(missing)]
    return {member_id: _by_topic(partitions) for member_id, partitions in kept.items()}


def _by_topic(partitions: list[Partition]) -> dict[UUID, frozenset[int]]:
    indexes: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        indexes.setdefault(topic_id, []).append(partition)
    return {topic_id: frozenset(indexes[topic_id]) for topic_id in sorted(indexes)}


class _Heterogeneous:
    """Members by their position in the order of their ids; the owner of each partition, and the load of each member."""

    def __init__(self, members: list[MemberSpec], group: GroupSpec) -> None:
        self._members = members
        self._partitions = group.partitions
        self._loads = [0] * len(members)
        self._subscribers: dict[UUID, list[int]] = {}
        for place, member in enumerate(members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(place)
        self._owners: dict[UUID, list[int | None]] = {
            topic_id: [None] * self._partitions[topic_id] for topic_id in self._subscribers
        }
        self._topics = sorted(self._subscribers, key=self._topic_order)

    def assign(self) -> Targets:
        """Keep, assign, balance."""
        self._keep()
        for topic_id in self._topics:
            self._deal(topic_id)
        self._balance([topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) >= 2])
        held: list[list[Partition]] = [[] for _ in self._members]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None, "a subscribed topic's partition has an owner"
                held[owner].append((topic_id, partition))
        return {member.member_id: _by_topic(held[place]) for place, member in enumerate(self._members)}

    def _topic_order(self, topic_id: UUID) -> tuple[float, int, UUID]:
        """Topics with many partitions per subscriber first: they are hard to balance later."""
        subscribers = len(self._subscribers[topic_id])
        return (-self._partitions[topic_id] / subscribers, subscribers, topic_id)

    def _keep(self) -> None:
        for place, member in enumerate(self._members):
            for topic_id, partitions in member.target.items():
                if topic_id in member.topic_ids:
                    for partition in partitions:
                        if partition < self._partitions[topic_id]:
                            self._give(topic_id, partition, place)

    def _give(self, topic_id: UUID, partition: int, place: int) -> None:
        owner = self._owners[topic_id][partition]
        if owner is not None:
            self._loads[owner] -= 1
        self._owners[topic_id][partition] = place
        self._loads[place] += 1

    def _deal(self, topic_id: UUID) -> None:
        """Assign every partition without an owner to the least loaded subscriber."""
        unowned = [partition for partition, owner in enumerate(self._owners[topic_id]) if owner is None]
        least = [(self._loads[place], rank, place) for rank, place in enumerate(self._by_load(topic_id))]
        for partition in unowned:
            _, rank, place = least[0]
            self._give(topic_id, partition, place)
            heapq.heapreplace(least, (self._loads[place], rank, place))

    def _by_load(self, topic_id: UUID) -> list[int]:
        return sorted(self._subscribers[topic_id], key=lambda place: (self._loads[place], place))

    def _balance(self, topics: list[UUID]) -> None:
        """Balance until a whole round has moved nothing."""
        last_moved: UUID | None = None
        for _ in range(BALANCE_ROUNDS_MAX):
            for topic_id in topics:
                if topic_id == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: UUID) -> int:
        """Move this topic's partitions from the most to the least loaded while that improves the balance."""
        ranked = self._by_load(topic_id)
        if self._loads[ranked[-1]] - self._loads[ranked[0]] <= 1:
            return 0
        movable: dict[int, list[int]] = {place: [] for place in ranked}
        for partition, owner in enumerate(self._owners[topic_id]):
            assert owner is not None
            movable[owner].append(partition)
        least = [(self._loads[place], rank, place) for rank, place in enumerate(ranked)]
        most = [(-self._loads[place], -rank, place) for rank, place in enumerate(ranked) if movable[place]]
        heapq.heapify(most)
        moved = 0
        while most:
            _, most_rank, giver = most[0]
            _, least_rank, taker = least[0]
            if self._loads[giver] - self._loads[taker] <= 1:
                break
            self._give(topic_id, movable[giver].pop(), taker)
            moved += 1
            heapq.heapreplace(least, (self._loads[taker], least_rank, taker))
            if movable[giver]:
                heapq.heapreplace(most, (-self._loads[giver], most_rank, giver))
            else:
                heapq.heappop(most)
        return moved
