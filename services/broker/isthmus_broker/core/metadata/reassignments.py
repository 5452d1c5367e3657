"""Reassignments: moving a partition to other replicas, cancelling that, and listing those in progress."""

from __future__ import annotations

from collections.abc import Sequence

from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import constraints_of
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

from isthmus_broker.core.metadata.constrained_placement import Placed, Replicas, observers_in
from isthmus_broker.core.metadata.image import ClusterImage, Partition, Topic
from isthmus_broker.core.metadata.partition_change import Election, PartitionChange, is_reassigning
from isthmus_broker.core.metadata.partitions import change_of, unclean_election_allowed
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result, check_size
from isthmus_broker.core.metadata.schema import MetadataRecord, PartitionChangeRecord
from isthmus_broker.core.metadata.topics import check_assignment


def alter_partition_reassignments(
    image: ClusterImage, request: AlterPartitionReassignmentsRequest, context: ControllerContext
) -> Result[AlterPartitionReassignmentsResponse]:
    """Assign new replicas to partitions, or none to cancel. Each partition is processed on its own."""
    records: list[MetadataRecord] = []
    responses = []
    for topic in request.topics:
        results = []
        for part in topic.partitions:
            code, message = ErrorCode.none, None
            try:
                target = None if part.replicas is None else tuple(int(replica) for replica in part.replicas)
                may_resize = request.allow_replication_factor_change
                record = _alter_one(image, context, topic.name, part.partition_index, target, may_resize=may_resize)
                records += [record] if record is not None else []
            except ControllerError as refusal:
                code, message = refusal.code, refusal.message
            results.append(
                entity(
                    ReassignablePartitionResponse,
                    partition_index=part.partition_index,
                    error_code=code,
                    error_message=message,
                )
            )
        responses.append(entity(ReassignableTopicResponse, name=topic.name, partitions=tuple(results)))
    check_size(records)
    response = entity(
        AlterPartitionReassignmentsResponse,
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.none,
        error_message=None if request.topics else "",  # as in Kafka
        responses=tuple(responses),
    )
    return Result(tuple(records), response)


def _alter_one(
    image: ClusterImage,
    context: ControllerContext,
    name: str,
    index: int,
    target: Replicas | None,
    *,
    may_resize: bool,
) -> PartitionChangeRecord | None:
    topic = image.topics.named(name)
    if topic is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition, f"Unable to find partition {name}:{index}.")
    change = change_of(image, context, topic, partition)
    if target is None:
        _cancel(change, partition, topic.name, unclean=unclean_election_allowed(image, context, name))
    else:
        reassign(change, _target(image, topic, partition, target, may_resize=may_resize))
    return change.record()


def _target(image: ClusterImage, topic: Topic, partition: Partition, target: Replicas, *, may_resize: bool) -> Placed:
    """The requested replicas, observers last; raises ControllerError if the request is refused."""
    check_assignment(image, target, None, None)
    settled = (set(partition.replicas) | set(partition.adding_replicas)) - set(partition.removing_replicas)
    if not may_resize and len(settled) != len(target):
        why = f"The replication factor is changed from {len(settled)} to {len(target)}"
        raise ControllerError(ErrorCode.invalid_replication_factor, why)
    constraints = constraints_of(image.config(ResourceType.TOPIC, topic.name))
    return Placed(target, () if constraints is None else observers_in(image, constraints, target))


def reassign(change: PartitionChange, target: Placed) -> None:
    """Begin a reassignment. The target comes first in order; replicas to be removed stay until every new one is in sync.

    A target may replace that of a reassignment in progress. As in Kafka, `adding` then names the replicas that the new target adds; if
    it adds none, `adding` stays as it was. Kafka's other rules can leave a reassignment that never completes, so two differ here
    (decision 36). A replica that was being added and is not in the new target is dropped at once, unless it is in sync. A replica that
    is in the new target is never removed.
    """
    partition = change.partition
    kept, current = set(target.replicas), set(partition.replicas)
    adding = kept - current
    dropped = set[int]()
    if not adding:
        adding = set(partition.adding_replicas) & kept
        dropped = set(partition.adding_replicas) - kept - set(partition.isr)
    removing = tuple(sorted(current - kept - dropped))
    change.replicas = (*target.replicas, *removing)
    change.removing = removing
    change.adding = tuple(sorted(adding))
    change.observers = (*target.observers, *(r for r in removing if r in (partition.observers or ())))


def _cancel(change: PartitionChange, partition: Partition, name: str, *, unclean: bool) -> None:
    """Return to the original replicas."""
    if not is_reassigning(partition):
        raise ControllerError(ErrorCode.no_reassignment_in_progress)
    replicas = tuple(replica for replica in partition.replicas if replica not in partition.adding_replicas)
    isr = tuple(replica for replica in partition.isr if replica not in partition.adding_replicas)
    if not replicas:
        why = "Invalid replica assignment: addingReplicas contains all replicas."
        raise ControllerError(ErrorCode.invalid_replica_assignment, why)
    if set(replicas) <= set(partition.observers or ()):
        # None of them would ever join the ISR.
        raise ControllerError(ErrorCode.invalid_replica_assignment, "Every replica of the assignment is an observer.")
    if not isr and not unclean:
        why = f"Unable to revert partition assignment for {name}:{partition.partition_id}"
        why = f"{why} because it would require an unclean leader election."
        raise ControllerError(ErrorCode.invalid_replica_assignment, why)
    if unclean:
        change.election = Election.UNCLEAN
    # Observers do not join the ISR; at least one replica is not an observer.
    change.isr = isr or tuple(replica for replica in replicas if replica not in (partition.observers or ()))[:1]
    change.replicas = replicas
    change.removing = ()
    change.adding = ()


def list_partition_reassignments(
    image: ClusterImage, request: ListPartitionReassignmentsRequest, _context: ControllerContext
) -> Result[ListPartitionReassignmentsResponse]:
    """The reassignments in progress, of the named partitions or of all; partitions that do not exist are skipped."""
    if request.topics is None:
        requested = [
            (name, sorted(image.topics.by_id[topic_id].partitions)) for name, topic_id in image.topics.ids.items()
        ]
        requested.sort()
    else:
        requested = [(str(topic.name), [int(index) for index in topic.partition_indexes]) for topic in request.topics]
    topics = []
    for name, indexes in requested:
        topic = image.topics.named(name)
        ongoing = () if topic is None else _ongoing(topic, indexes)
        if ongoing:
            topics.append(entity(OngoingTopicReassignment, name=name, partitions=ongoing))
    response = entity(
        ListPartitionReassignmentsResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(topics),
    )
    return Result((), response)


def _ongoing(topic: Topic, indexes: Sequence[int]) -> tuple[OngoingPartitionReassignment, ...]:
    return tuple(
        entity(
            OngoingPartitionReassignment,
            partition_index=index,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
        for index in indexes
        if (partition := topic.partitions.get(index)) is not None and is_reassigning(partition)
    )
