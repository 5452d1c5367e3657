"""A classic group: members that agree on a protocol, and the states of its rebalance.

Unlike a consumer group, most of its state is volatile: only the outcome of a rebalance is a record. Parked JoinGroup and SyncGroup requests
are identified by their tokens, one of each per member.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from isthmus_model.clocks import Now
from isthmus_wire.errors import DecodeError, ErrorCode

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.consumer_protocol import CONSUMER_PROTOCOL, read_topics
from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

# A protocol's name and the member's metadata for it.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicState(Enum):
    """The states of a classic group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_MOVES: Final = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE, ClassicState.DEAD},
    ClassicState.PREPARING_REBALANCE: {ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY, ClassicState.DEAD},
    ClassicState.COMPLETING_REBALANCE: {ClassicState.STABLE, ClassicState.PREPARING_REBALANCE, ClassicState.DEAD},
    ClassicState.STABLE: {ClassicState.PREPARING_REBALANCE, ClassicState.DEAD},
    ClassicState.DEAD: {ClassicState.DEAD},
}


@dataclass(frozen=True, slots=True)
class Parked:
    """A parked request; the version determines the form of the response."""

    token: int
    api_version: int


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """A member and its parked requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    joining: Parked | None = None
    syncing: Parked | None = None
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """The member's metadata for a protocol that it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: set[str]) -> str:
        """The first candidate in the member's order of preference."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def has_parked_request(self) -> bool:
        """Whether a parked request replaces the member's heartbeat: its client cannot send one meanwhile."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@dataclass(slots=True)
class ClassicGroup:
    """Members, generation and state."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    previous_state: ClassicState = ClassicState.DEAD
    state_timestamp_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    pending_joins: set[str] = field(default_factory=set)
    pending_syncs: set[str] = field(default_factory=set)
    # None if unknown: the protocol is not the consumers', or a member's metadata does not parse.
    subscribed_topics: frozenset[str] | None = None
    new_member_added: bool = False
    # The number of members that wait for the rebalance to complete, and of supporters of each protocol.
    joined: int = 0
    supported: dict[str, int] = field(default_factory=dict)

    # Queries.

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers."""
        return self.protocol_type == CONSUMER_PROTOCOL

    @property
    def is_simple(self) -> bool:
        """Whether the group exists only for offsets that were committed manually."""
        return self.protocol_type is None and self.state == ClassicState.EMPTY and not self.pending_joins

    @property
    def all_joined(self) -> bool:
        """Whether there is no member left to wait for."""
        return not self.pending_joins and self.joined == len(self.members)

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may start in this state."""
        return ClassicState.PREPARING_REBALANCE in _MOVES[self.state]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def subscribes_to(self, topic: str) -> bool:
        """Whether a consumer of the group may be using the topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols can join: one of them must be supported by every member."""
        if self.state == ClassicState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.supported.get(name, 0) == everybody for name, _ in protocols
        )

    def validate_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that a request identifies."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                raise CoordinatorError(ErrorCode.unknown_member_id)
            if holder != member_id:
                raise CoordinatorError(ErrorCode.fenced_instance_id)
        member = self.members.get(member_id)
        if member is None:
            raise CoordinatorError(ErrorCode.unknown_member_id)
        return member

    # Members.

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one determines the protocol type and becomes the leader."""
        assert member.instance_id is None or member.instance_id not in self.static_members
        if not self.members:
            self.protocol_type = member.protocol_type
        assert self.protocol_type == member.protocol_type
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending one; the oldest member becomes the leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.joining is None, "respond to the parked request first"
            self._count_protocols(member, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def rename(self, instance_id: str, new_id: str) -> ClassicMember:
        """Replace a static member's id after its return. Responses to its parked requests must have been sent."""
        old_id = self.static_members[instance_id]
        member = self.members.pop(old_id)
        assert member.joining is None
        assert member.syncing is None
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        return member

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Record a member's changed protocols and timeouts."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: ClassicMember, parked: Parked) -> None:
        """Park the member's JoinGroup until the rebalance completes."""
        assert member.joining is None
        member.joining = parked
        self.joined += 1

    def take_join(self, member: ClassicMember) -> Parked | None:
        """Remove and return the member's parked JoinGroup, for its response."""
        parked, member.joining = member.joining, None
        self.joined -= parked is not None
        return parked

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; False if there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = (member.member_id for member in self.members.values() if member.joining is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader = elected
        return True

    def _candidates(self) -> set[str]:
        """Protocols that every member supports."""
        return {name for name, count in self.supported.items() if count == len(self.members)}

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self.supported[name] = self.supported.get(name, 0) + change
            if self.supported[name] == 0:
                del self.supported[name]

    # Generations.

    def move(self, state: ClassicState, now: Now) -> None:
        """Change the state; an illegal transition is a bug."""
        assert state in _MOVES[self.state], f"{self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now.wall

    def select_protocol(self) -> str:
        """The protocol with most votes, or the first by name among equals."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return min(votes, key=lambda name: (-votes[name], name))

    def next_generation(self, now: Now) -> None:
        """Start a generation of the members that have joined."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.move(ClassicState.COMPLETING_REBALANCE if self.members else ClassicState.EMPTY, now)
        self.pending_syncs.clear()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """The topics in the members' metadata, if this is a group of consumers."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        try:
            return frozenset(
                topic for member in self.members.values() for topic in read_topics(member.metadata(self.protocol))
            )
        except DecodeError:
            return None

    # Records.

    def record(self, assignment_of: Callable[[ClassicMember], bytes]) -> Record:
        """The record of the generation, with the new assignments."""
        members = tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol),
                assignment=assignment_of(member),
            )
            for member in self.members.values()
        )
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp_ms,
            members=members,
        )
        return Record(GroupMetadataKey(self.group_id), value)

    def empty_record(self) -> Record:
        """The record of a group without members."""
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=self.state_timestamp_ms,
            members=(),
        )
        return Record(GroupMetadataKey(self.group_id), value)

    def tombstone(self) -> Record:
        """The group's tombstone."""
        return Record(GroupMetadataKey(self.group_id))

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group's state at the end of its last rebalance."""
        group = cls(
            group_id,
            state=ClassicState.STABLE if value.members else ClassicState.EMPTY,
            state_timestamp_ms=value.current_state_timestamp,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            leader=value.leader,
        )
        for entry in value.members:
            group.add(_member_from_record(entry, value))
        group.subscribed_topics = group.compute_subscribed_topics()
        return group


def _member_from_record(entry: MemberMetadata, value: GroupMetadataValue) -> ClassicMember:
    rebalance_timeout_ms = entry.session_timeout if entry.rebalance_timeout == -1 else entry.rebalance_timeout
    return ClassicMember(
        member_id=entry.member_id,
        instance_id=entry.group_instance_id,
        client_id=entry.client_id,
        client_host=entry.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=entry.session_timeout,
        protocol_type=value.protocol_type,
        protocols=((value.protocol or "", entry.subscription),),
        assignment=entry.assignment,
    )
