"""Which replica a consumer should read from (KIP-392): one that stands nearer than the leader and holds the offset.

Kafka names replicas in the ISR only. Here any replica may serve that holds the offset below the high watermark it knows of, so that a
region which has observers alone reads from them.
"""

from collections.abc import Iterable
from typing import NamedTuple

from isthmus_model.regions import region_of

from isthmus_broker.core.replica.progress import Progress


class Candidate(NamedTuple):
    """A replica that holds the wanted offset, on a broker that the consumer can reach."""

    broker_id: int
    rack: str | None
    log_end: int
    caught_up_ms: int


def holds(progress: Progress, offset: int) -> bool:
    """Whether the replica can serve from `offset`: everything below the high watermark that it certainly knows."""
    return 0 <= progress.log_start <= offset <= min(progress.high_watermark, progress.log_end)


def preferred_replica(client_rack: str, leader: Candidate, others: Iterable[Candidate]) -> int | None:
    """The most caught up in the client's rack, else in its region; None for the leader, which wins where it stands near enough."""
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
