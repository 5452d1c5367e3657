"""The ISR that a leader should propose: without replicas that fell behind, with those that caught up, and with promoted observers.

The promotion policy sets a number of ISR members: observers are promoted while there are fewer, and demoted when there are more. Both
limits are the same number, so a promotion never causes a demotion.
"""

from collections.abc import Iterable
from typing import NamedTuple

from isthmus_model.constraints import Promotion

from isthmus_broker.core.replica.leadership import IsrRules, Leadership


class ReplicaView(NamedTuple):
    """A replica other than the leader, at one moment."""

    replica: int
    log_end: int
    caught_up: bool
    """It has all records now, or had within replica.lag.time.max.ms."""
    may_join: bool
    """It fetches, has reached both the high watermark and the start of the leader's epoch, and its broker is eligible."""


def target_isr(
    leader: int, leadership: Leadership, rules: IsrRules, min_isr: int, replicas: Iterable[ReplicaView]
) -> tuple[int, ...]:
    """The target ISR, equal to the committed one if no change is needed. Members keep their order, new ones come last."""
    observers = leadership.observers
    views = {view.replica: view for view in replicas}
    kept = [r for r in leadership.isr if r == leader or (r in views and views[r].caught_up)]
    joining = [v for v in views.values() if v.may_join and v.replica not in leadership.isr]
    isr = kept + [v.replica for v in joining if v.replica not in observers]
    if not observers:
        return tuple(isr)
    target = members_with_observers(leader, leadership, rules, min_isr)
    # Best first: the most records, then the placement's order. A Python sort keeps the order of equals.
    ready = sorted((v for v in joining if v.replica in observers and v.caught_up), key=lambda v: -v.log_end)
    isr += [v.replica for v in ready[: max(target - len(isr), 0)]]
    # Observers are demoted when sync replicas are back, but never below min.insync.replicas.
    surplus = len(isr) - max(target, min_isr)
    leaving = [r for r in isr if r in observers and r != leader][::-1][: max(surplus, 0)]
    return tuple(r for r in isr if r not in leaving)


def members_with_observers(leader: int, leadership: Leadership, rules: IsrRules, min_isr: int) -> int:
    """The number of ISR members below which observers are promoted."""
    sync_replicas = len(leadership.replicas) - len(leadership.observers)
    sync_target = sync_replicas if rules.sync_target is None else rules.sync_target
    match rules.promotion:
        case Promotion.NEVER:
            return 0
        case Promotion.UNDER_MIN_ISR:
            return min_isr
        case Promotion.UNDER_REPLICATED:
            return sync_target
        case Promotion.LEADER_IS_OBSERVER:
            return sync_target if leader in leadership.observers else 0
