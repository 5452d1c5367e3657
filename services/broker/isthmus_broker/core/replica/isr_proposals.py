"""What the leaders of one node propose to the controller, as AlterPartition requests, and what its answers mean for them.

How to drive it, with one request under way at a time:

    add(key, leader, proposal)     a leader proposes; it takes the place of what the partition's leader proposed in an earlier epoch
    request(node_id, epoch)        what to send now, or None while nothing stands
    settle(response)               the answer to that request: what was decided
    is_settled                     False while something must be sent again

Proposals that the metadata has overtaken are dropped when the next request is made.
"""

from collections import defaultdict
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
"""Partitions in one request; the rest goes with the next."""
Key = tuple[UUID, int]


class Proposed(NamedTuple):
    """A leader's proposal."""

    leader: ReplicaLeader
    proposal: IsrProposal

    @property
    def stands(self) -> bool:
        """Whether the leader still waits for it."""
        return self.leader.in_flight is self.proposal


class Decided(NamedTuple):
    """What the controller said of one proposal: `leadership` when it granted it in the leader's epoch, else why it did not."""

    key: Key
    leader: ReplicaLeader
    error: ErrorCode
    leadership: Leadership | None = None


class IsrProposals:
    """The proposals of one node that are not settled."""

    def __init__(self) -> None:
        self._proposed: dict[Key, Proposed] = {}
        self._sent: dict[Key, Proposed] = {}

    def add(self, key: Key, leader: ReplicaLeader, proposal: IsrProposal) -> None:
        """To be sent with the next request."""
        self._proposed[key] = Proposed(leader, proposal)

    def request(self, node_id: int, broker_epoch: int) -> alter.AlterPartitionRequest | None:
        """The next request; what an earlier one asked and nobody answered is asked again."""
        self._proposed = {key: proposed for key, proposed in self._proposed.items() if proposed.stands}
        self._sent = dict(list(self._proposed.items())[:PROPOSED_MAX])
        by_topic: dict[UUID, list[alter.PartitionData]] = defaultdict(list)
        for (topic_id, index), (_, proposal) in self._sent.items():
            by_topic[topic_id].append(_wanted(index, proposal))
        if not by_topic:
            return None
        topics = tuple(
            entity(alter.TopicData, topic_id=topic_id, partitions=tuple(wanted))
            for topic_id, wanted in by_topic.items()
        )
        return entity(alter.AlterPartitionRequest, broker_id=node_id, broker_epoch=broker_epoch, topics=topics)

    def settle(self, response: altered.AlterPartitionResponse) -> list[Decided]:
        """What the answer to the last request settles. One that is refused as a whole settles nothing."""
        if response.error_code is not ErrorCode.none:
            return []
        answers = {
            (topic.topic_id, int(answer.partition_index)): answer
            for topic in response.topics
            for answer in topic.partitions
            if topic.topic_id is not None
        }
        found = (self._settle(key, proposed, answers.get(key)) for key, proposed in self._sent.items())
        return [decided for decided in found if decided is not None]

    @property
    def is_settled(self) -> bool:
        """Whether every proposal of the last request has its answer."""
        return not any(self._proposed.get(key) is proposed for key, proposed in self._sent.items())

    def _settle(self, key: Key, proposed: Proposed, answer: altered.PartitionData | None) -> Decided | None:
        """None for one that has to be sent again."""
        leader, proposal = proposed
        error = ErrorCode.unknown_server_error if answer is None else answer.error_code
        if error is not ErrorCode.none and leader.answered(proposal, error):
            return None
        if self._proposed.get(key) is proposed:
            del self._proposed[key]
        if answer is None or error is not ErrorCode.none or answer.leader_epoch != proposal.leader_epoch:
            return Decided(key, leader, error)
        granted = leader.leadership._replace(
            isr=tuple(answer.isr),
            partition_epoch=int(answer.partition_epoch),
            recovering=bool(answer.leader_recovery_state),
        )
        return Decided(key, leader, error, granted)


def _wanted(index: int, proposal: IsrProposal) -> alter.PartitionData:
    members = tuple(entity(alter.BrokerState, broker_id=broker, broker_epoch=epoch) for broker, epoch in proposal.isr)
    return entity(
        alter.PartitionData,
        partition_index=index,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=members,
        leader_recovery_state=RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )
