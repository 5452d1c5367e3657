"""The ISRs that the leaders of one node propose to the controller in AlterPartition requests, and the handling of its responses.

How to drive it, with one request under way at a time:

    add(key, leader, proposal)     a leader proposes; this supersedes an earlier proposal of the partition
    request(node_id, epoch)        what to send now, or None when there is no proposal
    settle(response)               the response to that request: returns the decisions
    is_settled                     False while something must be sent again

Proposals superseded by the metadata log are dropped when the next request is built.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.alter_partition.v3 import request as alter
from kio.schema.alter_partition.v3 import response as altered

from isthmus_broker.core.replica.leader import IsrProposal, ReplicaLeader
from isthmus_broker.core.replica.leadership import Leadership

RECOVERED: Final = 0
PROPOSED_MAX: Final = 5_000
"""Upper bound on the partitions in one request; the rest is sent with the next."""
Key = tuple[UUID, int]


class ProposalState(Enum):
    """The state of a proposal."""

    NEW = "new"
    SENT = "sent"
    """In the request under way, or in one whose outcome is unknown: it is sent again."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    """By a later proposal, or by the metadata log."""


TRANSITIONS: Final[Mapping[ProposalState, frozenset[ProposalState]]] = {
    ProposalState.NEW: frozenset({ProposalState.SENT, ProposalState.SUPERSEDED}),
    ProposalState.SENT: frozenset(
        {ProposalState.SENT, ProposalState.ACCEPTED, ProposalState.REFUSED, ProposalState.SUPERSEDED}
    ),
    ProposalState.ACCEPTED: frozenset(),
    ProposalState.REFUSED: frozenset(),
    ProposalState.SUPERSEDED: frozenset(),
}


@dataclass(slots=True, eq=False)
class _Proposed:
    leader: ReplicaLeader
    proposal: IsrProposal
    state: ProposalState = ProposalState.NEW
    has_lost_copy: bool = False
    """A copy of the proposal got no response: a controller may still grant it."""

    @property
    def is_in_flight(self) -> bool:
        """Whether the leader still waits for the decision."""
        return self.leader.in_flight is self.proposal

    def change(self, state: ProposalState) -> None:
        assert state in TRANSITIONS[self.state], f"an ISR proposal cannot become {state} from {self.state}"
        self.state = state


class Decided(NamedTuple):
    """The controller's decision on one proposal: `leadership` when it was accepted in the leader's epoch, else the error."""

    key: Key
    leader: ReplicaLeader
    error: ErrorCode
    leadership: Leadership | None = None


class IsrProposals:
    """The proposals of one node that are not settled."""

    def __init__(self) -> None:
        self._proposed: dict[Key, _Proposed] = {}
        self._sent: dict[Key, _Proposed] = {}

    def add(self, key: Key, leader: ReplicaLeader, proposal: IsrProposal) -> None:
        """Send this with the next request."""
        self._supersede(key)
        self._proposed[key] = _Proposed(leader, proposal)

    def _supersede(self, key: Key) -> None:
        before = self._proposed.pop(key, None)
        if before is not None:
            before.change(ProposalState.SUPERSEDED)

    def request(self, node_id: int, broker_epoch: int) -> alter.AlterPartitionRequest | None:
        """The next request, which repeats proposals of an earlier one that got no response."""
        for key in [key for key, proposed in self._proposed.items() if not proposed.is_in_flight]:
            self._supersede(key)
        self._sent = dict(list(self._proposed.items())[:PROPOSED_MAX])
        by_topic: dict[UUID, list[alter.PartitionData]] = defaultdict(list)
        for (topic_id, index), proposed in self._sent.items():
            proposed.change(ProposalState.SENT)
            by_topic[topic_id].append(_partition_data(index, proposed.proposal))
        if not by_topic:
            return None
        topics = tuple(
            entity(alter.TopicData, topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in by_topic.items()
        )
        return entity(alter.AlterPartitionRequest, broker_id=node_id, broker_epoch=broker_epoch, topics=topics)

    def copy_lost(self) -> None:
        """Record that the request under way was sent, got no response, and may be sent again."""
        for proposed in self._sent.values():
            proposed.has_lost_copy = True

    def settle(self, response: altered.AlterPartitionResponse) -> list[Decided]:
        """The decisions in the response to the last request; none if the request was refused as a whole."""
        if response.error_code is not ErrorCode.none:
            return []
        results = {
            (topic.topic_id, int(partition.partition_index)): partition
            for topic in response.topics
            for partition in topic.partitions
            if topic.topic_id is not None
        }
        sent = ((key, proposed) for key, proposed in self._sent.items() if proposed.state is ProposalState.SENT)
        decisions = (self._settle(key, proposed, results.get(key)) for key, proposed in sent)
        return [decided for decided in decisions if decided is not None]

    @property
    def is_settled(self) -> bool:
        """Whether every proposal of the last request is decided or superseded."""
        return all(proposed.state is not ProposalState.SENT for proposed in self._sent.values())

    def _settle(self, key: Key, proposed: _Proposed, result: altered.PartitionData | None) -> Decided | None:
        """None for a proposal that has to be sent again."""
        leader, proposal = proposed.leader, proposed.proposal
        error = ErrorCode.unknown_server_error if result is None else result.error_code
        if error is not ErrorCode.none and leader.proposal_failed(
            proposal, error, has_lost_copy=proposed.has_lost_copy
        ):
            return None
        del self._proposed[key]
        if result is None or error is not ErrorCode.none or result.leader_epoch != proposal.leader_epoch:
            proposed.change(ProposalState.REFUSED)
            return Decided(key, leader, error)
        proposed.change(ProposalState.ACCEPTED)
        accepted = leader.leadership._replace(
            isr=tuple(result.isr),
            partition_epoch=int(result.partition_epoch),
            recovering=bool(result.leader_recovery_state),
        )
        return Decided(key, leader, error, accepted)


def _partition_data(index: int, proposal: IsrProposal) -> alter.PartitionData:
    members = tuple(entity(alter.BrokerState, broker_id=broker, broker_epoch=epoch) for broker, epoch in proposal.isr)
    return entity(
        alter.PartitionData,
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=members,
        leader_recovery_state=RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )
