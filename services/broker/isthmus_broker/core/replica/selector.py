"""Selects the replica that a consumer should read from (KIP-392): one that is nearer than the leader and has the offset.

Kafka selects replicas in the ISR only. Here any replica may serve if it has the offset below its high watermark, so that a region with
only observers reads from them.
"""

from collections.abc import Iterable
from typing import NamedTuple

from isthmus_model.regions import region_of

from isthmus_broker.core.replica.progress import Progress


class Candidate(NamedTuple):
    """A replica that has the offset, on a broker that the consumer can reach."""

    broker_id: int
    rack: str | None
    log_end: int
    caught_up_ms: int


def has_offset(progress: Progress, offset: int) -> bool:
    """Whether the replica can serve from `offset`: up to the high watermark that it has certainly received."""
    return 0 <= progress.log_start <= offset <= min(progress.high_watermark, progress.log_end)


def preferred_replica(client_rack: str, leader: Candidate, others: Iterable[Candidate]) -> int | None:
    """The most caught-up replica in the client's rack, else in its region; None if the leader is as near."""
    if not client_rack:
        return None
    candidates = [leader, *others]
    for is_near in (_same_rack, _same_region):
        near = [candidate for candidate in candidates if is_near(candidate.rack, client_rack)]
        if leader in near:
            return None
        if near:
            return max(near, key=lambda c: (c.log_end, c.caught_up_ms, -c.broker_id)).broker_id
    return None


def _same_rack(rack: str | None, client_rack: str) -> bool:
    return rack == client_rack


def _same_region(rack: str | None, client_rack: str) -> bool:
    return rack is not None and region_of(rack) == region_of(client_rack)
