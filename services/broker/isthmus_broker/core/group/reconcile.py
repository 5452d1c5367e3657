"""One step of a member's reconciliation with its target (KIP-848): what it keeps, revokes, and gets.

A member at an older epoch first revokes partitions that are not in the target (UNREVOKED_PARTITIONS, still at its old epoch). Once it owns
none of those any more it moves to the target's epoch and gets the partitions without an owner. While others still own partitions of its
target it is UNRELEASED_PARTITIONS; then STABLE.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from uuid import UUID

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.group.consumer_group import NO_OWNER
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.member import ConsumerMember, MemberState, OwnedPartitions, Partitions


@dataclass(frozen=True, slots=True)
class Target:
    """A member's target, and the state of the group that affects it."""

    epoch: int
    partitions: Partitions
    # Topics to which the member is still subscribed; the target may be older than its subscription.
    topic_ids: Set[UUID]
    partition_epoch: Callable[[UUID, int], int]
    subscription_changed: bool


def reconcile(member: ConsumerMember, target: Target, owned: Partitions | None) -> ConsumerMember:
    """The member after this step. `owned` are the partitions that it reports; None if it reports none."""
    match member.state:
        case MemberState.STABLE if member.epoch == target.epoch:
            return _drop_unsubscribed(member, target, owned) if target.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _still_owns(owned, member.revoking):
            return _drop_unsubscribed(member, target, owned) if target.subscription_changed else member
        case MemberState.UNKNOWN:
            if owned is None or owned:
                message = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
                raise CoordinatorError(ErrorCode.fenced_member_epoch, message)
            return _advance(member, target, owned, target.epoch)
        case _:
            return _advance(member, target, owned, member.epoch)


def _still_owns(owned: Partitions | None, given_back: OwnedPartitions) -> bool:
    """Without a report a member still owns its partitions."""
    if owned is None:
        return True
    return any(not given_back.get(topic_id, {}).keys().isdisjoint(partitions) for topic_id, partitions in owned.items())


def _drop_unsubscribed(member: ConsumerMember, target: Target, owned: Partitions | None) -> ConsumerMember:
    """A member that unsubscribed from a topic revokes its partitions before the target changes."""
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in target.topic_ids}
    if len(kept) == len(member.assigned):
        return member
    revoking = {topic_id: dict(epochs) for topic_id, epochs in member.revoking.items()}
    for topic_id, epochs in member.assigned.items():
        if topic_id not in kept:
            revoking.setdefault(topic_id, {}).update(epochs)
    if _still_owns(owned, revoking):
        return member.advanced(member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    return member.advanced(member.epoch, assigned=kept)


def _advance(member: ConsumerMember, target: Target, owned: Partitions | None, epoch: int) -> ConsumerMember:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    free: dict[UUID, list[int]] = {}
    waits = False
    for topic_id in sorted(target.partitions.keys() | member.assigned.keys()):
        targeted = target.partitions.get(topic_id, frozenset()) if topic_id in target.topic_ids else frozenset[int]()
        has = member.assigned.get(topic_id, {})
        for partition, since in has.items():
            (kept if partition in targeted else revoking).setdefault(topic_id, {})[partition] = since
        for partition in sorted(targeted - has.keys()):
            if _is_free(member, target, topic_id, partition):
                free.setdefault(topic_id, []).append(partition)
            else:
                waits = True
    if revoking and _still_owns(owned, revoking):
        return member.advanced(epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    for topic_id, partitions in free.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, target.epoch))
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return member.advanced(target.epoch, state=state, assigned=kept, revoking={})


def _is_free(member: ConsumerMember, target: Target, topic_id: UUID, partition: int) -> bool:
    """Whether the partition has no owner, or the member itself was about to revoke it."""
    if target.partition_epoch(topic_id, partition) == NO_OWNER:
        return True
    return partition in member.revoking.get(topic_id, {})
