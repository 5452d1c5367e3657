"""Inputs and results of controller operations: records that are not replayed yet, and the response to send once they are committed."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.schema import MetadataRecord

R_co = TypeVar("R_co", covariant=True)

# Bounds of one request; beyond them the whole request is refused with POLICY_VIOLATION.
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
MAX_RECORDS_PER_REQUEST: Final = 10_000
MAX_RECORDS_PER_BATCH: Final = 10_000
"""Records of a batch of the metadata log; the batch must stay below raft's `append_bytes_max`."""

TOO_MANY_RECORDS: Final = "Unable to perform excessively large batch operation."


class Randomness(Protocol):
    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, x: MutableSequence[Any], /) -> None: ...


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The inputs of decisions besides the image: this controller's own settings, and values that a core may not generate."""

    node: NodeConfig
    cluster_id: str
    random: Randomness
    new_id: Callable[[], UUID]


@dataclass(frozen=True, slots=True)
class Result(Generic[R_co]):
    """Records to append, and the response to send when they are committed.

    They are appended as one batch, atomically, or in batches of MAX_RECORDS_PER_BATCH: a fencing, for example, changes every partition of
    its broker.
    """

    records: tuple[MetadataRecord, ...]
    response: R_co
    is_atomic: bool = True

    def batches(self) -> list[tuple[MetadataRecord, ...]]:
        """The records of each batch."""
        if self.is_atomic:
            return [self.records]
        return [
            self.records[begin : begin + MAX_RECORDS_PER_BATCH]
            for begin in range(0, len(self.records), MAX_RECORDS_PER_BATCH)
        ]


class ControllerError(Exception):
    """Why one item of a request, or all of it, is refused: Kafka's error code, and a message if it has one."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def check_size(records: Sequence[MetadataRecord]) -> None:
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise ControllerError(ErrorCode.policy_violation, TOO_MANY_RECORDS)
