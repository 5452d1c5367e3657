"""What the metadata log says of one partition's replicas, and the rules by which its leader proposes who is in sync. Immutable."""

from typing import Final, NamedTuple, Protocol

from isthmus_model.constraints import Constraints, Promotion

from isthmus_broker.core.log.epochs import EpochHistory

NO_BROKER_EPOCH: Final = -1
"""A replica that fetched without saying its broker epoch, or did not fetch yet."""


class Leadership(NamedTuple):
    """Who leads and who follows, as committed. An observer is a replica as well: `replicas` names it, after the sync replicas."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    observers: tuple[int, ...] = ()
    recovering: bool = False  # the leader was elected uncleanly and has not said yet that its log is in order


NOBODY: Final = Leadership(leader=-1, leader_epoch=-1, replicas=(), isr=(), partition_epoch=-1)
"""Before the metadata log has said anything."""


class IsrRules(NamedTuple):
    """The settings that decide who is in sync."""

    lag_max_ms: int = 30_000
    min_isr: int = 1
    promotion: Promotion = Promotion.NEVER
    sync_wanted: int | None = (
        None  # sync replicas that the placement asks for; those that there are when it does not say
    )


def isr_rules(constraints: Constraints | None, *, lag_max_ms: int = 30_000, min_isr: int = 1) -> IsrRules:
    """The rules of a topic with these placement constraints, or with none."""
    if constraints is None:
        return IsrRules(lag_max_ms, min_isr)
    return IsrRules(lag_max_ms, min_isr, constraints.promotion, constraints.replica_count)


class LogView(Protocol):
    """What the decisions look at in a log."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def epochs(self) -> EpochHistory: ...
