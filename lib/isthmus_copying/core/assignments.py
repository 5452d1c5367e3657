"""Which copies a worker keeps when its assignment changes."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

K = TypeVar("K")


class Copying(Protocol):
    """An assigned partition and its copy."""

    assignment: Any
    copy: Any


T = TypeVar("T", bound=Copying)


def drop_reassigned(targets: dict[K, T], keep: Mapping[K, object]) -> None:
    """Stop and remove the copies whose assignment is gone or has changed."""
    for partition in [partition for partition, target in targets.items() if keep.get(partition) != target.assignment]:
        targets.pop(partition).copy.stop()
