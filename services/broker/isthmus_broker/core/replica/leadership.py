"""What the metadata log says of one partition's replicas, and the settings by which its leader proposes the ISR. Immutable."""

from typing import Final, NamedTuple

from isthmus_model.constraints import Constraints, Promotion

NO_BROKER_EPOCH: Final = -1
"""A replica that fetched without a broker epoch, or did not fetch yet."""


class Leadership(NamedTuple):
    """The committed state. An observer is a replica as well: `replicas` names it, after the sync replicas."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    observers: tuple[int, ...] = ()
    recovering: bool = False  # the leader was elected uncleanly and has not reported yet that it has recovered


NOBODY: Final = Leadership(leader=-1, leader_epoch=-1, replicas=(), isr=(), partition_epoch=-1)
"""Before the first state from the metadata log."""


class IsrRules(NamedTuple):
    """The settings that decide which replicas are in sync."""

    lag_max_ms: int = 30_000
    min_isr: int = 1
    promotion: Promotion = Promotion.NEVER
    sync_target: int | None = (
        None  # sync replicas that the placement requires; those of the assignment when it does not say
    )


def isr_rules(constraints: Constraints | None, *, lag_max_ms: int = 30_000, min_isr: int = 1) -> IsrRules:
    """The rules of a topic with these placement constraints, or with none."""
    if constraints is None:
        return IsrRules(lag_max_ms, min_isr)
    return IsrRules(lag_max_ms, min_isr, constraints.promotion, constraints.replica_count)
