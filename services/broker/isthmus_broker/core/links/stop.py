"""The point at which a mirror topic stopped being a copy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """How many partitions the topic had then, and the leader epoch from which on its records are clients' writes."""

    partitions: int
    leader_epoch: int
