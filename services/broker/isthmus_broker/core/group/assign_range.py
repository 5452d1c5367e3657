"""The range assignor: each subscriber of a topic gets one contiguous range, in the order of the members.

Topics with equal numbers of partitions are thereby co-partitioned: the n-th member has the n-th range of each.
"""

from isthmus_broker.core.group.assign_spec import GroupSpec, MemberSpec, Targets


def assign_range(group: GroupSpec) -> Targets:
    """New targets; former ones are ignored."""
    members = sorted(group.members, key=_order)
    targets: Targets = {member.member_id: {} for member in members}
    for topic_id, partitions in group.partitions.items():
        subscribers = [member for member in members if topic_id in member.topic_ids]
        if not subscribers:
            continue
        quota, extra = divmod(partitions, len(subscribers))
        start = 0
        for place, member in enumerate(subscribers):
            end = start + quota + (place < extra)
            if start < end:
                targets[member.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return targets


def _order(member: MemberSpec) -> tuple[bool, str]:
    """Static members first, by instance id, so that a restart does not move ranges."""
    return (member.instance_id is None, member.instance_id if member.instance_id is not None else member.member_id)
