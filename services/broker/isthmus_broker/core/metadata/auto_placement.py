"""Automatic changes by the active controller: elections of preferred leaders, and replicas and observers as placement constraints say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import Constraints, PlacementRule, constraints_of

from isthmus_broker.core.config.definitions.own import PLACEMENT_MOVES
from isthmus_broker.core.config.node_config import resolve_node
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.constrained_placement import Placed, Replicas, narrowest_first
from isthmus_broker.core.metadata.image import ClusterImage, Partition, Topic
from isthmus_broker.core.metadata.partition_change import Election, is_reassigning
from isthmus_broker.core.metadata.partitions import change_of, election_rules
from isthmus_broker.core.metadata.placement import UsableBroker, usable_brokers
from isthmus_broker.core.metadata.reassignments import reassign
from isthmus_broker.core.metadata.result import ControllerContext, Result
from isthmus_broker.core.metadata.schema import MetadataRecord

CHANGES_MAX: Final = 1_000
"""Partitions that one decision changes; the next decision changes the others."""


def balance_leaders(image: ClusterImage, context: ControllerContext) -> Result[None]:
    """Leadership moves to preferred replicas that are in sync."""
    records: list[MetadataRecord] = []
    for _, topic_id in sorted(image.topics.ids.items()):
        topic = image.topics.by_id[topic_id]
        rules = election_rules(image, context, topic)
        for _, partition in sorted(topic.partitions.items()):
            change = change_of(image, context, topic, partition, rules=rules)
            preferred = change.preferred_leader
            if partition.leader == preferred or preferred not in partition.isr:
                continue
            change.election = Election.PREFERRED
            record = change.record()
            records += [record] if record is not None else []
            if len(records) >= CHANGES_MAX:
                return Result(tuple(records), None)
    return Result(tuple(records), None)


def satisfy_constraints(image: ClusterImage, context: ControllerContext) -> Result[None]:
    """Reassign partitions that do not satisfy their topic's constraints, a bounded number at a time."""
    astray = list(_astray(image))
    if not astray:
        return Result((), None)
    moves = _moves_left(image, context)
    brokers = _Brokers(image)
    records: list[MetadataRecord] = []
    for topic, partition, constraints in astray:
        target = brokers.nearest(partition, constraints)
        if target is None:
            continue  # too few brokers for it now; checked again when there are more
        moving = set(target.replicas) != set(partition.replicas)
        if moving and moves <= 0:
            continue
        moves -= moving
        change = change_of(image, context, topic, partition)
        reassign(change, target)
        record = change.record()
        records += [record] if record is not None else []
    return Result(tuple(records), None)


def release_observers(image: ClusterImage, context: ControllerContext) -> Result[None]:
    """Turn the observers of topics without constraints into ordinary replicas; they join the ISR when they have caught up."""
    records: list[MetadataRecord] = []
    for name, topic_id in sorted(image.topics.ids.items()):
        topic = image.topics.by_id[topic_id]
        observed = [partition for partition in topic.partitions.values() if partition.observers]
        if not observed or constraints_of(image.config(ResourceType.TOPIC, name)) is not None:
            continue
        rules = election_rules(image, context, topic)
        for partition in observed:
            change = change_of(image, context, topic, partition, rules=rules)
            change.observers = ()
            record = change.record()
            records += [record] if record is not None else []
            if len(records) >= CHANGES_MAX:
                return Result(tuple(records), None, is_complete=False)
    return Result(tuple(records), None)


def _astray(image: ClusterImage) -> Iterator[tuple[Topic, Partition, Constraints]]:
    for resource, settings in sorted(image.configs.items()):
        topic = image.topics.named(resource.name) if resource.type == ResourceType.TOPIC else None
        constraints = None if topic is None else constraints_of(settings)
        if topic is None or constraints is None:
            continue
        for _, partition in sorted(topic.partitions.items()):
            if not is_reassigning(partition) and not _satisfies(image, partition, constraints):
                yield topic, partition, constraints


def _satisfies(image: ClusterImage, partition: Partition, constraints: Constraints) -> bool:
    observers = partition.observers or ()
    racks = {replica: broker.rack if (broker := image.brokers.get(replica)) else None for replica in partition.replicas}
    replicas = [racks[replica] for replica in partition.replicas if replica not in observers]
    return constraints.admit(replicas, [racks[replica] for replica in observers])


def _moves_left(image: ClusterImage, context: ControllerContext) -> int:
    allowed = resolve_node(layers_of(image, context)).values[PLACEMENT_MOVES]
    assert isinstance(allowed, int)
    topics = image.topics.by_id.values()
    return allowed - sum(is_reassigning(partition) for topic in topics for partition in topic.partitions.values())


class _Brokers:
    """The brokers and their replicas, to find for a partition the assignment that moves least."""

    def __init__(self, image: ClusterImage) -> None:
        self._brokers = {
            broker.broker_id: UsableBroker(broker.broker_id, broker.rack, broker.fenced)
            for broker in image.brokers.values()
        }
        self._usable = {broker.id for broker in usable_brokers(image)}
        self._held = Counter(
            replica
            for topic in image.topics.by_id.values()
            for partition in topic.partitions.values()
            for replica in partition.replicas
        )

    def nearest(self, partition: Partition, constraints: Constraints) -> Placed | None:
        """None if there are too few brokers to satisfy the constraints."""
        taken: list[UsableBroker] = []
        observers = set(partition.observers or ())
        synced = self._fill(partition, constraints.replicas, taken, set(partition.replicas) - observers)
        observing = None if synced is None else self._fill(partition, constraints.observers, taken, observers)
        if synced is None or observing is None:
            return None
        for broker in taken:
            self._held[broker.id] += broker.id not in partition.replicas
        place = {replica: position for position, replica in enumerate(partition.replicas)}
        ordered = sorted(synced, key=lambda replica: place.get(replica, len(place)))
        return Placed((*ordered, *observing), observing)

    def _fill(
        self, partition: Partition, rules: Sequence[PlacementRule], taken: list[UsableBroker], same_role: set[int]
    ) -> Replicas | None:
        """Brokers for the rules: those with a replica of the partition first, in the same role if possible, then the least loaded."""

        def badness(broker: UsableBroker) -> tuple[bool, bool, bool, bool, int, int]:
            is_new = broker.id not in partition.replicas
            rules_zone = broker.rack is not None and broker.rack in {other.rack for other in taken}
            return is_new, broker.id not in same_role, broker.fenced, rules_zone, self._held[broker.id], broker.id

        chosen = []
        for rule in narrowest_first(rules):
            for _ in range(rule.count):
                free = [broker for broker in self._admitted(partition, rule) if broker not in taken]
                if not free:
                    return None
                best = min(free, key=badness)
                taken.append(best)
                chosen.append(best.id)
        return tuple(chosen)

    def _admitted(self, partition: Partition, rule: PlacementRule) -> Iterator[UsableBroker]:
        for broker in self._brokers.values():
            if rule.admits(broker.rack) and (broker.id in partition.replicas or broker.id in self._usable):
                yield broker
