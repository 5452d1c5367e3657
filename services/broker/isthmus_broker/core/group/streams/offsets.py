"""The committed offsets of a streams group's members."""

from collections.abc import Callable
from uuid import UUID

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.group import StreamsGroup

# Raises if the member may not commit for a partition of a topic of that name and id.
PartitionCheck = Callable[[str, UUID, int], None]


def may_commit(group: StreamsGroup, member_id: str, epoch: int, *, has_epochs: bool = True) -> PartitionCheck | None:
    """Check that a member may commit; returns the check that remains for each partition, None if any may be committed.

    `has_epochs` is whether the version of the request has member epochs. Without members any client may commit.
    """
    if epoch < 0 and not group.members:
        return None
    member = group.member(member_id)
    if not has_epochs:
        raise CoordinatorError(ErrorCode.unsupported_version)
    if epoch == member.epoch:
        return None
    if epoch > member.epoch or group.topology is None:
        raise CoordinatorError(ErrorCode.stale_member_epoch)
    topology = group.topology

    def check(name: str, topic_id: UUID, index: int) -> None:
        """KIP-1251: a member at an older epoch may still commit for the tasks that it has had since then."""
        subtopology = topology.subtopology_of(name)
        since = None if subtopology is None else member.assignment_epoch(subtopology.subtopology_id, index)
        if since is None or epoch < since:
            raise CoordinatorError(ErrorCode.stale_member_epoch)

    return check
