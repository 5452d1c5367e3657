"""The loads of brokers as arrays, updated with every planned move."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from isthmus_balancer.core.cluster import ClusterState

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


class Load(IntEnum):
    """The kinds of load; the rows of the load array."""

    REPLICAS = 0
    DISK = 1
    LEADERS = 2
    NETWORK_OUT = 3


class Assignment:
    """Replicas by partition, as indexes into the list of brokers, and the resulting loads. A move updates both."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.ids = sorted(state.brokers)
        self.brokers = [state.brokers[broker] for broker in self.ids]
        index = {broker: number for number, broker in enumerate(self.ids)}
        self.replicas = [[index[broker] for broker in partition.replicas] for partition in state.partitions]
        self.leader = [index.get(partition.leader, -1) for partition in state.partitions]
        self.sizes = [partition.size for partition in state.partitions]
        self.loads: Floats = np.zeros((len(Load), len(self.ids)))
        regions = {region: number for number, region in enumerate(sorted({broker.region for broker in self.brokers}))}
        racks = {rack: number for number, rack in enumerate(sorted({broker.rack for broker in self.brokers}))}
        self.region = np.array([regions[broker.region] for broker in self.brokers], dtype=np.int64)
        self.rack = np.array([racks[broker.rack] for broker in self.brokers], dtype=np.int64)
        self.may_get: Flags = np.array([broker.may_get for broker in self.brokers], dtype=np.bool_)
        self.hosted: list[set[int]] = [set() for _ in self.ids]
        self.led: list[set[int]] = [set() for _ in self.ids]
        for partition, replicas in enumerate(self.replicas):
            for broker in replicas:
                self._add(partition, broker, 1)
            self._lead(partition, self.leader[partition], 1)

    def weight(self, partition: int, load: Load) -> float:
        """The load that a replica of the partition, or its leadership, adds to a broker."""
        if load is Load.REPLICAS or load is Load.LEADERS:
            return 1.0
        return float(self.sizes[partition]) if load is Load.DISK else self._out(partition)

    def move(self, partition: int, source: int, target: int) -> None:
        """Move a replica from one broker to another, with the leadership if it is the leader."""
        replicas = self.replicas[partition]
        replicas[replicas.index(source)] = target
        self._add(partition, source, -1)
        self._add(partition, target, 1)
        if self.leader[partition] == source:
            self.lead(partition, target)

    def lead(self, partition: int, target: int) -> None:
        """Make another replica the leader and the first of the assignment."""
        self._lead(partition, self.leader[partition], -1)
        self.leader[partition] = target
        self._lead(partition, target, 1)
        replicas = self.replicas[partition]
        first = replicas.index(target)
        replicas[0], replicas[first] = replicas[first], replicas[0]

    def sync(self, partition: int) -> list[int]:
        """The replicas that may become leader, without the observers at the end of the assignment."""
        replicas = self.replicas[partition]
        return replicas[: len(replicas) - len(self.state.partitions[partition].observers)]

    def holders(self, partition: int) -> Flags:
        """A flag for each broker that has a replica of the partition."""
        flags = np.zeros(len(self.ids), dtype=np.bool_)
        flags[self.replicas[partition]] = True
        return flags

    def _add(self, partition: int, broker: int, sign: int) -> None:
        self.loads[Load.REPLICAS, broker] += sign
        self.loads[Load.DISK, broker] += sign * self.sizes[partition]
        (self.hosted[broker].add if sign > 0 else self.hosted[broker].discard)(partition)

    def _lead(self, partition: int, broker: int, sign: int) -> None:
        if broker >= 0:
            self.loads[Load.LEADERS, broker] += sign
            self.loads[Load.NETWORK_OUT, broker] += sign * self._out(partition)
            (self.led[broker].add if sign > 0 else self.led[broker].discard)(partition)

    def _out(self, partition: int) -> float:
        partition_state = self.state.partitions[partition]
        return partition_state.bytes_out + partition_state.bytes_in * (len(partition_state.replicas) - 1)
