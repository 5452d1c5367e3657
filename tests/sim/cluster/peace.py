"""What must be true inside the nodes of a cluster: always, and once it is healthy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.partition_change import is_reassigning
from isthmus_broker.core.metadata.schema import PartitionRecord
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.log import Log
from isthmus_wire.records import batches

from tests.sim.cluster.machine import Machine
from tests.sim.cluster.plan import MIN_IN_SYNC, Plan


def services_of(machine: Machine) -> Services | None:
    """The inside of a serving broker."""
    node = machine.node
    if node is None or not machine.is_serving or node._broker is None:
        return None
    return node._broker.services


def newest_image(machines: Sequence[Machine]) -> ClusterImage:
    """The newest committed metadata that any node has applied, also one that has died since."""
    return max((machine.metadata for machine in machines), key=lambda applied: applied[0])[1]


class InSync:
    """The replicas in sync of each partition over time, as nodes learned of them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._changes: dict[tuple[UUID, int], dict[int, tuple[float, tuple[int, ...]]]] = {}
        """By partition epoch: when a node first had it, and the ISR."""

    def note(self, image: ClusterImage) -> None:
        """Note the metadata that a node applies."""
        for topic_id, topic in image.topics.by_id.items():
            for index, partition in topic.partitions.items():
                changes = self._changes.setdefault((topic_id, index), {})
                changes.setdefault(partition.partition_epoch, (self._now(), partition.isr))

    def since(self, topic_id: UUID, index: int, moment: float) -> set[int]:
        """All replicas that have been in sync since then."""
        changes = self._changes[topic_id, index]
        at_the_time = max((epoch for epoch, (begin, _) in changes.items() if begin <= moment), default=-1)
        return {replica for epoch, (_, isr) in changes.items() if epoch >= at_the_time for replica in isr}


def lost_topics(machines: Sequence[Machine], plan: Plan) -> list[str]:
    """The topics of the plan that the metadata no longer has."""
    topics = newest_image(machines).topics
    return [topic.name for topic in plan.topics if topics.named(topic.name) is None]


def has_recovered(machines: Sequence[Machine], machine: Machine) -> bool:
    """Whether a node serves and has everything again: it is in sync, or an observer that has reached the high watermark."""
    return machine.is_serving and all(
        machine.node_id in partition.isr
        if machine.node_id in _voting(partition)
        else _reaches_watermark(machines, machine, topic.name, index)
        for topic in newest_image(machines).topics.by_id.values()
        for index, partition in topic.partitions.items()
        if machine.node_id in partition.replicas
    )


def _reaches_watermark(machines: Sequence[Machine], machine: Machine, topic: str, index: int) -> bool:
    logs = {
        each: services.logs.logs[topic, index]
        for each in machines
        if (services := services_of(each)) is not None and (topic, index) in services.logs.logs
    }
    return machine in logs and logs[machine].end_offset >= max(log.high_watermark for log in logs.values())


def why_not_replicated(
    machines: Sequence[Machine], in_sync: InSync, topic: str, index: int, offset: int, sent: float
) -> str | None:
    """An acknowledged record must be in the log of each replica in sync, and of enough replicas. Those that are down may have it.

    An observer that was in sync when the record was committed counts, even if it has left the ISR before the acknowledgement arrived.
    """
    image = newest_image(machines)
    named = image.topics.named(topic)
    if named is None:
        return None
    partition = named.partitions[index]
    missing = set()
    for machine in machines:
        services = services_of(machine)
        if services is not None and machine.node_id in partition.replicas:
            log = services.logs.logs.get((topic, index))
            if log is None or log.end_offset <= offset:
                missing.add(machine.node_id)
    counted = _voting(partition) | in_sync.since(named.id, index, sent)
    if missing & set(partition.isr):
        return f"missing-in-sync: {topic}-{index}@{offset} is not at {sorted(missing)}: {partition}"
    if len(counted - missing) < min(MIN_IN_SYNC, len(counted)):
        return f"under-replicated: {topic}-{index}@{offset} is not at {sorted(missing)}: {partition}"
    return None


def why_not_whole(machines: Sequence[Machine], plan: Plan) -> list[str]:
    """What is left to recover, and replicas that differ."""
    image = newest_image(machines)
    brokers = {machine.node_id: services_of(machine) for machine in machines if machine.node_id in plan.brokers}
    problems = [f"broker {broker_id} does not serve" for broker_id, services in brokers.items() if services is None]
    compacted = {topic.name for topic in plan.topics if topic.is_compacted} | {"__consumer_offsets"}
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            name = f"{topic.name}-{index}"
            if partition.leader < 0 or set(partition.isr) != _voting(partition) or is_reassigning(partition):
                problems.append(f"{name} is not in sync: {partition}")
                continue
            logs = _logs(brokers, topic.name, index, partition)
            if not problems and (difference := _difference(logs, is_compacted=topic.name in compacted)):
                problems.append(f"{name}: {difference}")
    return problems


def _voting(partition: PartitionRecord) -> set[int]:
    """The replicas that should be in sync: all but observers."""
    return set(partition.replicas) - set(partition.observers or ())


def _logs(
    brokers: dict[int, Services | None], topic: str, index: int, partition: PartitionRecord
) -> dict[int, Log | None]:
    logs: dict[int, Log | None] = {}
    for replica in partition.replicas:
        services = brokers[replica]
        logs[replica] = None if services is None else services.logs.logs.get((topic, index))
    return logs


def _difference(logs: dict[int, Log | None], *, is_compacted: bool) -> str | None:
    """How replicas differ: in their ends, or in a byte of what all of them have."""
    present = {replica: log for replica, log in logs.items() if log is not None}
    if len(present) < len(logs):
        return f"only the brokers {sorted(present)} have a log"
    ends = {replica: (log.high_watermark, log.end_offset) for replica, log in present.items()}
    if len({position for both in ends.values() for position in both}) > 1:
        return f"high watermarks and log ends differ: {ends}"
    if is_compacted:
        return None
    start = max(log.log_start_offset for log in present.values())
    contents = {replica: _bytes_from(log, start) for replica, log in present.items()}
    if len(set(contents.values())) > 1:
        return f"replicas differ above {start}: { {replica: len(data) for replica, data in contents.items()} }"
    return None


def _bytes_from(log: Log, offset: int) -> bytes:
    parts = []
    while offset < log.end_offset:
        data = log.read(offset, 1 << 30, log.end_offset, at_least_one=True).records()
        if not data:
            break
        parts.append(bytes(data))
        offset = _end_of(data)
    return b"".join(parts)


def _end_of(data: bytes) -> int:
    return max(header.last_offset for _, header in batches(data)) + 1
