"""What the applications read and write: topics, partitions, keys, and the size of transactions.

An input record has a key, and as its value a number that rises with each record of the key. An output record names the input record that
it was made from. Its key is the input's key, or, where records are aggregated, the group of the number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

Kind = Literal["transform", "aggregate"]
GROUPS: Final = 8
"""Of numbers, in an aggregation; the records of a group come from all input partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The same for every application that shares it. They get it as arguments `name=value`."""

    bootstrap: str
    kind: Kind = "transform"
    name: str = "copy"
    """The consumer group, or the application id of Kafka Streams; other names begin with it."""
    partitions: int = 4
    """Of the input, and of the output."""
    keys: int = 16
    replicas: int = 3
    transaction_size: int = 20
    abort_probability: float = 0.1
    transaction_timeout_ms: int = 10_000
    session_timeout_ms: int = 6_000

    @property
    def input(self) -> str:
        return f"{self.name}-input"

    @property
    def output(self) -> str:
        return f"{self.name}-output"

    def transactional_id(self, instance: int) -> str:
        return f"{self.name}-{instance}"

    def input_partition(self, key: int) -> int:
        return key % self.partitions

    def output_partition(self, key: int) -> int:
        """A transaction writes to several partitions: those of one input partition's keys go to all."""
        return key // self.partitions % self.partitions

    def arguments(self) -> list[str]:
        return [f"{name}={value}" for name, value in asdict(self).items()]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Workload:
        """The workload of `arguments`; others are ignored."""
        texts = values_of(arguments)
        kinds = {"int": int, "float": float}
        return cls(**{each.name: kinds.get(str(each.type), str)(texts[each.name]) for each in fields(cls)})


def values_of(arguments: Sequence[str]) -> dict[str, str]:
    """Values by name, of arguments such as `name=value`."""
    return dict(argument.split("=", 1) for argument in arguments)


def transformed(number: int) -> int:
    """What an application makes of the number of an input record."""
    return 3 * number + 1


def group_of(number: int) -> int:
    """The group that an aggregation counts a record in."""
    return number % GROUPS
