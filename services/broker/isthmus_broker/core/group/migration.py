"""Classic groups become consumer groups when the first consumer of the new protocol joins, and back when the last one leaves (KIP-848).

Both are one batch of records: the tombstones of what the group was, and all that it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from isthmus_model.clocks import Now
from isthmus_wire.errors import DecodeError, ErrorCode

from isthmus_broker.core.coordinator.result import Record
from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicMember, ClassicState
from isthmus_broker.core.group.config import MigrationPolicy
from isthmus_broker.core.group.consumer_group import NO_OWNER, ConsumerGroup
from isthmus_broker.core.group.consumer_protocol import (
    CONSUMER_PROTOCOL,
    read_assignment,
    read_subscription,
    write_assignment,
)
from isthmus_broker.core.group.errors import CoordinatorError, UnknownGroup
from isthmus_broker.core.group.member import ConsumerMember, MemberState, Partitions
from isthmus_broker.core.group.rebalance import Rebalance
from isthmus_broker.core.group.records import ClassicMemberMetadata, ClassicProtocol
from isthmus_broker.core.group.registry import Registry


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The classic group that replaces a consumer group: the records of the conversion, and the group to use once they are appended."""

    group: ClassicGroup
    records: tuple[Record, ...]
    # Why its members must join again, None if they need not.
    reason: str | None


class Migration:
    """Conversions between the group types."""

    def __init__(self, registry: Registry, rebalance: Rebalance) -> None:
        self._registry = registry
        self._rebalance = rebalance

    # Classic to consumer.

    def upgrade(self, group: ClassicGroup, records: list[Record]) -> ConsumerGroup:
        """Convert a classic group to a consumer group. Its classic members must join again at once."""
        self._check_upgrade(group)
        upgraded = self._consumer_group(group)
        for member in group.members.values():
            self._rebalance.refuse_join(group, member, ErrorCode.rebalance_in_progress, member.member_id)
            self._rebalance.refuse_sync(member, ErrorCode.rebalance_in_progress)
        records.append(group.tombstone())
        records += upgraded.records()
        return upgraded

    def _check_upgrade(self, group: ClassicGroup) -> None:
        start = f"Cannot upgrade classic group {group.group_id} to consumer group because "
        if not self._registry.config.group_consumer_migration_policy.upgrades:
            raise UnknownGroup(start + "online upgrade is disabled.")
        if not group.uses_consumer_protocol:
            raise UnknownGroup(start + "the group does not use the consumer embedded protocol.")
        if len(group.members) > self._registry.config.group_consumer_max_size:
            raise UnknownGroup(start + "the group size exceeds the consumer group maximum size.")

    def _consumer_group(self, group: ClassicGroup) -> ConsumerGroup:
        upgraded = ConsumerGroup(group.group_id)
        upgraded.epoch = upgraded.assignment_epoch = group.generation
        for member in group.members.values():
            assigned = self._assigned(group, member)
            if any(upgraded.partition_epoch(*each) != NO_OWNER for each in _pairs(assigned)):
                raise CoordinatorError(
                    ErrorCode.unknown_server_error
                )  # the group's leader assigned a partition to two members
            upgraded.target[member.member_id] = assigned
            upgraded.update_member(self._consumer_member(group, member, assigned))
        upgraded.metadata_hash = self._registry.metadata_hash(upgraded.subscriptions.topics())
        return upgraded

    def _assigned(self, group: ClassicGroup, member: ClassicMember) -> dict[UUID, frozenset[int]]:
        if not member.assignment:
            return {}
        try:
            partitions, user_data = read_assignment(member.assignment)
        except DecodeError:
            raise _malformed(group) from None
        if user_data:
            message = (
                f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom assignor is in use. "
                "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
            )
            raise UnknownGroup(message)
        topics = {name: self._registry.view.topic(name) for name in partitions}
        return {topic.topic_id: frozenset(partitions[name]) for name, topic in topics.items() if topic is not None}

    def _consumer_member(
        self, group: ClassicGroup, member: ClassicMember, assigned: dict[UUID, frozenset[int]]
    ) -> ConsumerMember:
        metadata = dict(member.protocols).get(group.protocol or "")
        if metadata is None:
            raise CoordinatorError(ErrorCode.unknown_server_error)  # the group has not agreed on a protocol yet
        try:
            subscription = read_subscription(metadata)
        except DecodeError:
            raise _malformed(group) from None
        protocols = tuple(ClassicProtocol(name, data) for name, data in member.protocols)
        return ConsumerMember(
            member_id=member.member_id,
            epoch=group.generation,
            previous_epoch=group.generation,
            state=MemberState.STABLE,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            assigned={topic_id: dict.fromkeys(indexes, group.generation) for topic_id, indexes in assigned.items()},
            classic=ClassicMemberMetadata(member.session_timeout_ms, protocols),
        )

    # Consumer to classic.

    def may_leave_classic(self, group: ConsumerGroup, leaving: Iterable[ConsumerMember]) -> bool:
        """Whether only classic members remain without these, and the conversion is allowed."""
        gone = {member.member_id for member in leaving}
        return self._may_downgrade([member for member in group.members.values() if member.member_id not in gone])

    def may_replace_by_classic(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether only classic members remain once a classic one replaces this member of the consumer protocol."""
        others = [member for member in group.members.values() if member.member_id != replaced.member_id]
        if replaced.classic is not None or any(member.classic is None for member in others):
            return False
        return self._downgrades_to(len(others) + 1)

    def _may_downgrade(self, left: list[ConsumerMember]) -> bool:
        return bool(left) and all(member.classic is not None for member in left) and self._downgrades_to(len(left))

    def _downgrades_to(self, size: int) -> bool:
        config = self._registry.config
        return config.group_consumer_migration_policy.downgrades and size <= config.group_max_size

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Iterable[ConsumerMember],
        joining: ConsumerMember | None,
        reason: str | None,
        now: Now,
    ) -> Downgrade:
        """The classic group of the remaining members, with `joining` in place of the static member it replaces."""
        gone = {member.member_id for member in leaving}
        replaced = None if joining is None else group.static_member(joining.instance_id)
        members = [member for member in group.members.values() if member.member_id not in gone and member != replaced]
        if joining is not None:
            members.append(joining)
        former_ids = {joining.member_id: replaced.member_id} if joining is not None and replaced is not None else {}
        classic = ClassicGroup(
            group.group_id,
            state=ClassicState.STABLE,
            state_timestamp_ms=now.wall,
            generation=group.epoch,
            protocol_type=CONSUMER_PROTOCOL,
        )
        for member in members:
            classic.add(_classic_member(member))
        classic.protocol = classic.select_protocol()
        classic.subscribed_topics = classic.compute_subscribed_topics()
        for each in classic.members.values():
            target = group.target.get(former_ids.get(each.member_id, each.member_id), {})
            try:
                each.assignment = write_assignment(each.metadata(classic.protocol), target, self._registry.view)
            except DecodeError as error:
                raise UnknownGroup(f"Cannot downgrade the classic group {group.group_id}: {error}.") from None
        renamed = {old: new for new, old in former_ids.items()}
        records = (*group.tombstones(renamed), classic.record(lambda each: each.assignment))
        return Downgrade(classic, records, reason)

    def put_in_place(self, downgrade: Downgrade, now: Now) -> None:
        """Complete the conversion: the records are in the log."""
        group = downgrade.group
        former = self._registry.groups.get(group.group_id)
        assert isinstance(former, ConsumerGroup)
        self._registry.resubscribe(group.group_id, former.subscriptions.topics(), set())
        self._registry.groups[group.group_id] = group
        for member in group.members.values():
            self._rebalance.restart_session(group, member, now)
        if downgrade.reason is not None:
            self._rebalance.prepare(group, downgrade.reason, now)

    def check_classic_may_join(self, group: ConsumerGroup) -> None:
        """Whether classic members may join."""
        if self._registry.config.group_consumer_migration_policy == MigrationPolicy.DISABLED:
            message = f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration is disabled."
            raise CoordinatorError(ErrorCode.inconsistent_group_protocol, message)


def _pairs(partitions: Partitions) -> list[tuple[UUID, int]]:
    return [(topic_id, index) for topic_id, indexes in partitions.items() for index in indexes]


def _malformed(group: ClassicGroup) -> UnknownGroup:
    return UnknownGroup(
        f"Cannot upgrade classic group {group.group_id} to consumer group because the embedded consumer protocol is malformed."
    )


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols),
    )
