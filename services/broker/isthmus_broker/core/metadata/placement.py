"""Assigns the replicas of new partitions: striped over racks, then over the brokers of a rack.

The first replica, which will be the leader, is on a broker that is not fenced. The next partition starts one rack and one broker further,
so that leaders and followers spread evenly. After as many partitions as there are brokers the order is shuffled, so that the same brokers
do not follow each other in every partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerError, Randomness


@dataclass(frozen=True, slots=True)
class UsableBroker:
    id: int
    rack: str | None
    fenced: bool


def usable_brokers(image: ClusterImage) -> list[UsableBroker]:
    """Brokers that may get replicas: not shutting down, and with a directory that is not cordoned."""
    return [
        UsableBroker(broker.broker_id, broker.rack, broker.fenced)
        for _, broker in sorted(image.brokers.items())
        if not broker.in_controlled_shutdown
        and (not broker.log_dirs or set(broker.log_dirs) - set(broker.cordoned_log_dirs or ()))
    ]


class _Ring:
    """Brokers in rotation; every round starts one further than the last."""

    def __init__(self, brokers: Sequence[int], random: Randomness) -> None:
        self._brokers = sorted(brokers)
        self._offset = random.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._round = 0

    def next(self, round_number: int) -> int | None:
        if not self._brokers:
            return None
        if self._round != round_number:
            self._round = round_number
            self._index = 0
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._index == len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._offset) % len(self._brokers)]
        self._index += 1
        return broker

    def shuffle(self, random: Randomness) -> None:
        random.shuffle(self._brokers)


class _Rack:
    def __init__(self, brokers: Sequence[UsableBroker], random: Randomness) -> None:
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], random)
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], random)

    def next(self, round_number: int) -> int | None:
        broker = self.unfenced.next(round_number)
        return self.fenced.next(round_number) if broker is None else broker


class _Stripes:
    def __init__(self, brokers: Sequence[UsableBroker], random: Randomness) -> None:
        by_rack: dict[str, list[UsableBroker]] = {}
        for broker in brokers:
            # Brokers without a rack share one; it sorts before every named rack.
            by_rack.setdefault("" if broker.rack is None else f"={broker.rack}", []).append(broker)
        self._random = random
        self._racks = [_Rack(members, random) for _, members in sorted(by_rack.items())]
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._offset = random.randrange(len(self._racks))
        self._round = 0

    def place(self, replicas: int) -> tuple[int, ...]:
        if self._round == self._unfenced and self._unfenced > 1:
            self._random.shuffle(self._racks)
            for rack in self._racks:
                rack.fenced.shuffle(self._random)
                rack.unfenced.shuffle(self._random)
            self._round = 0
        start = self._offset % len(self._racks)
        first_rack, leader = self._leader(start)
        placed = [leader]
        # The leader's rack was already used in the first round over the racks.
        skip: int | None = first_rack
        position = start
        while len(placed) < replicas:
            index = position % len(self._racks)
            if index == skip:
                skip = None
            else:
                broker = self._racks[index].next(self._round)
                if broker is not None:
                    placed.append(broker)
            position += 1
        self._round += 1
        self._offset = start + 1
        return tuple(placed)

    def _leader(self, start: int) -> tuple[int, int]:
        for step in range(len(self._racks)):
            index = (start + step) % len(self._racks)
            broker = self._racks[index].unfenced.next(self._round)
            if broker is not None:
                return index, broker
        raise AssertionError("some broker is not fenced")


def place(brokers: Sequence[UsableBroker], partitions: int, replicas: int, random: Randomness) -> list[tuple[int, ...]]:
    """The replicas of each of the partitions, the preferred leader first."""
    check_feasible(brokers, replicas)
    stripes = _Stripes(brokers, random)
    return [stripes.place(replicas) for _ in range(partitions)]


def check_feasible(brokers: Sequence[UsableBroker], replicas: int) -> None:
    if replicas <= 0:
        why = f"Invalid replication factor {replicas}: the replication factor must be positive."
    elif all(broker.fenced for broker in brokers):
        why = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replicas > len(brokers):
        why = (
            f"The target replication factor of {replicas} cannot be reached because only {len(brokers)} broker(s) "
            "are registered or some brokers have all their log directories cordoned."
        )
    else:
        return
    raise ControllerError(ErrorCode.invalid_replication_factor, why)
