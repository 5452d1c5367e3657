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
NOT_HOSTED: Final = "This server does not host this topic-partition."
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
    """Records to append as one batch, and the response to send when they are committed.

    A decision that changes many partitions takes several steps, so that other requests are served in between, and each batch stays below
    raft's `append_bytes_max`: one that is not complete is made again on the image that has these records, and its response is not sent.
    """

    records: tuple[MetadataRecord, ...]
    response: R_co
    is_complete: bool = True
    upgrades_quorum: bool = False
    """Whether the voters are written to the log before the records (kraft.version 0 to 1)."""


class ControllerError(Exception):
    """Why one item of a request, or all of it, is refused: Kafka's error code, and a message if it has one."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def check_size(records: Sequence[MetadataRecord]) -> None:
    if len(records) > MAX_RECORDS_PER_REQUEST:
        raise ControllerError(ErrorCode.policy_violation, TOO_MANY_RECORDS)
