"""A streams group: its members, topology, target assignment and epochs. Its replicated state changes only by replaying records."""

from collections.abc import Mapping
from copy import copy
from typing import Final

from isthmus_model.clocks import MonotonicMs
from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.configured import ConfiguredTopology
from isthmus_broker.core.group.streams.member import StreamsMember, tombstones
from isthmus_broker.core.group.streams.owners import TaskOwners
from isthmus_broker.core.group.streams.records import (
    KeyValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
)
from isthmus_broker.core.group.streams.tasks import NO_TASKS, Assignment
from isthmus_broker.core.group.streams.topology import Topology, sources

STREAMS_PROTOCOL: Final = "streams"
# Kafka's value before the first assignment.
FIRST_ASSIGNMENT_EPOCH: Final = 1
NOT_VALIDATED: Final = -1


class StreamsGroup:
    """The replicated state of a group, an index over it, and volatile state that the next coordinator starts without."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        # As Kafka has it before the first record, so that the first heartbeat always validates the topology.
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.assignment_epoch = FIRST_ASSIGNMENT_EPOCH
        self.assigned_ms: MonotonicMs | None = None  # None for a target of unknown age
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, Assignment] = {}
        self.owners = TaskOwners()
        # Volatile state.
        self.configured: ConfiguredTopology | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        # The topics are checked when they change. The epoch invalidates a check whose bump was not appended.
        self._is_checked = False
        self._checked_epoch = 0

    def snapshot(self) -> "StreamsGroup":
        """The group as it is now, for queries that must not reflect later records."""
        unchanged = copy(self)
        unchanged.members, unchanged.target = dict(self.members), dict(self.target)
        return unchanged

    # Queries.

    @property
    def state(self) -> str:
        """Kafka's name of the group's state."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def required_topics(self) -> set[str]:
        """The topics whose changes concern the group."""
        return set() if self.topology is None else self.topology.required_topics()

    def member(self, member_id: str) -> StreamsMember:
        """The member of that id, or UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(
                ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str) -> Assignment:
        """A member's target."""
        return self.target.get(member_id, NO_TASKS)

    def subscribes_to(self, topic: str) -> bool:
        """Whether members may be reading the topic."""
        if not self.members or self.topology is None:
            return False
        return any(topic in sources(each) for each in self.topology.subtopologies.values())

    # Volatile state.

    def needs_check(self) -> bool:
        """Whether the topics must be compared with the topology again."""
        return not self._is_checked or self.epoch < self._checked_epoch

    def checked(self, epoch: int) -> None:
        """Record a check for that group epoch."""
        self._is_checked, self._checked_epoch = True, epoch

    def request_refresh(self) -> None:
        """Make a check due after a change of a topic."""
        self._is_checked = False

    # Replay.

    def update_member(self, member: StreamsMember) -> None:
        """Add a member, or replace its earlier state."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None:
            self.owners.remove(old)
        self.owners.add(member)

    def remove_member(self, member_id: str) -> None:
        """Remove a member. A shutdown of the application ends with its last member."""
        self.owners.remove(self.members.pop(member_id))
        if not self.members:
            self.shutdown_requested_by = None

    # Records.

    def epoch_record(
        self,
        epoch: int,
        metadata_hash: int | None = None,
        validated: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> Record:
        """Set a new group epoch; what is not given stays."""
        configs = self.assignment_configs if configs is None else configs
        value = StreamsGroupMetadataValue(
            epoch,
            self.metadata_hash if metadata_hash is None else metadata_hash,
            self.validated_topology_epoch if validated is None else validated,
            tuple(KeyValue(key, configs[key]) for key in sorted(configs)),
        )
        return Record(StreamsGroupMetadataKey(self.group_id), value)

    def assignment_record(self, epoch: int, timestamp_ms: int) -> Record:
        """Record that the target was computed."""
        key = StreamsGroupTargetAssignmentMetadataKey(self.group_id)
        return Record(key, StreamsGroupTargetAssignmentMetadataValue(epoch, timestamp_ms))

    def topology_record(self, topology: Topology) -> Record:
        """Initialise the topology."""
        return Record(StreamsGroupTopologyKey(self.group_id), topology.record_value())

    def tombstones(self) -> list[Record]:
        """The tombstones of the whole group."""
        of_members = [tombstones(self.group_id, member_id) for member_id in self.members]
        return [
            *(current for current, _, _ in of_members),
            *(target for _, target, _ in of_members),
            Record(StreamsGroupTargetAssignmentMetadataKey(self.group_id)),
            *(metadata for _, _, metadata in of_members),
            Record(StreamsGroupMetadataKey(self.group_id)),
            Record(StreamsGroupTopologyKey(self.group_id)),
        ]
