"""The point at which a mirror topic stopped being a copy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """The topic's number of partitions at that time, and the first leader epoch in which clients wrote its records."""

    partitions: int
    leader_epoch: int
