"""The replicated state of a shard as plain values, to be compared."""

from typing import Any

from isthmus_broker.core.group.classic_group import ClassicGroup, ClassicState
from isthmus_broker.core.group.consumer_group import ConsumerGroup
from isthmus_broker.core.group.shard import GroupShard
from isthmus_broker.core.group.streams.group import StreamsGroup


def snapshot(shard: GroupShard, *, classic: bool = True) -> dict[str, Any]:
    """Everything that another leader must know.

    Of a classic group that is what its last rebalance ended with; while the next one is under way memory is ahead of the log.
    """
    groups: dict[str, Any] = {}
    for group_id, group in shard.registry.groups.items():
        if isinstance(group, ConsumerGroup):
            groups[group_id] = _consumer(group)
        elif isinstance(group, StreamsGroup):
            groups[group_id] = _streams(group)
        elif classic and group.state in (ClassicState.EMPTY, ClassicState.STABLE):
            groups[group_id] = _classic(group)
    return {"groups": groups, "offsets": shard.offsets.by_group, "subscribers": shard.registry.subscribers}


def settled(shard: GroupShard) -> set[str]:
    """The classic groups that a snapshot must include on both sides."""
    return {
        group_id
        for group_id, group in shard.registry.groups.items()
        if not isinstance(group, ClassicGroup) or group.state in (ClassicState.EMPTY, ClassicState.STABLE)
    }


def _consumer(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "epoch": group.epoch,
        "hash": group.metadata_hash,
        "assignment": (group.assignment_epoch, group.assignment_timestamp_ms),
        "members": group.members,
        "target": group.target,
        "resolved": group.resolved,
        "static": group.static_members,
        "names": group.subscriptions.names,
        "regexes": group.subscriptions.regexes,
        "by_regex": group.subscriptions.resolved,
        "partitions": group._partition_epochs,
        "legacy": group.has_partition_metadata,
    }


def _streams(group: StreamsGroup) -> dict[str, Any]:
    return {
        "epoch": group.epoch,
        "hash": group.metadata_hash,
        "validated": group.validated_topology_epoch,
        "configs": group.assignment_configs,
        "assignment": group.assignment_epoch,
        "topology": group.topology,
        "members": group.members,
        "target": group.target,
        "active": group.owners._active,
        "copies": group.owners._copies,
    }


def _classic(group: ClassicGroup) -> dict[str, Any]:
    return {
        "generation": group.generation,
        "type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader,
        "topics": group.subscribed_topics,
        "static": group.static_members,
        "members": {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol),
                member.assignment,
            )
            for member in group.members.values()
        },
        "since": group.state_timestamp_ms if group.state == ClassicState.EMPTY else None,
    }
