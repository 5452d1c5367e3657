"""The committed state of one partition's replicas, and the settings by which its leader proposes the ISR. Immutable."""

from typing import Final, NamedTuple

from isthmus_model.constraints import Constraints, Promotion

NO_BROKER_EPOCH: Final = -1
"""The broker epoch of a replica that fetched without one, or has not fetched yet."""


class Leadership(NamedTuple):
    """The committed state. Observers are replicas too: `replicas` lists them after the sync replicas."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    observers: tuple[int, ...] = ()
    recovering: bool = False  # the leader was elected uncleanly and has not reported its recovery yet


NO_LEADERSHIP: Final = Leadership(leader=-1, leader_epoch=-1, replicas=(), isr=(), partition_epoch=-1)
"""Before the first state from the metadata log."""


class IsrRules(NamedTuple):
    """The settings that decide which replicas are in sync."""

    lag_max_ms: int = 30_000
    min_isr: int = 1
    promotion: Promotion = Promotion.NEVER
    sync_target: int | None = None  # sync replicas that the placement requires; None for those of the assignment


def isr_rules(constraints: Constraints | None, *, lag_max_ms: int = 30_000, min_isr: int = 1) -> IsrRules:
    """The rules of a topic with these placement constraints, or with none."""
    if constraints is None:
        return IsrRules(lag_max_ms, min_isr)
    return IsrRules(lag_max_ms, min_isr, constraints.promotion, constraints.replica_count)
