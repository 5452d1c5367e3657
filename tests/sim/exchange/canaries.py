"""Planted defects of mirrors that write in transactions, each with the violation that it must cause."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple
from unittest.mock import patch

from isthmus_client.batch_io import FetchLimits
from isthmus_client.transactional_producer import TransactionalProducer
from isthmus_mirror.core.transactional import TransactionalCopy
from isthmus_mirror.edge import progress_log
from isthmus_mirror.edge.origin_log import OriginLog
from isthmus_model.clocks import MonotonicMs


async def _no_offsets(_producer: TransactionalProducer, *_what: object) -> None:
    """Commit without the group, which knows whether the mirror is still its member."""


async def _no_origins(_log: OriginLog) -> None:
    """Take every record of the source for its own."""


def _incomplete(copy: TransactionalCopy, _now: MonotonicMs) -> bool:
    """Append what is there, complete or not."""
    return bool(copy._waiting) and copy._in_flight is None


class Canary(NamedTuple):
    """A defect."""

    owner: object
    name: str
    defect: object
    violations: tuple[str, ...]
    """The finding begins with one of these names."""
    begins_at: int = 0
    """A seed that finds it, where the search begins."""


CANARIES: Final[Mapping[str, Canary]] = {
    "no-generation": Canary(TransactionalProducer, "send_offsets", _no_offsets, ("twice", "order"), begins_at=191),
    "no-origins": Canary(OriginLog, "read_to_end", _no_origins, ("twice",)),
    "incomplete-transactions": Canary(TransactionalCopy, "has_appends", _incomplete, ("split",), begins_at=3),
    "uncommitted-progress": Canary(
        progress_log,
        "_LIMITS",
        FetchLimits(wait_ms=100, read_committed=False),
        ("not-level", "order", "twice"),
        begins_at=9,
    ),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with that defect."""
    canary = CANARIES[name]
    with patch.object(canary.owner, canary.name, canary.defect):
        yield
