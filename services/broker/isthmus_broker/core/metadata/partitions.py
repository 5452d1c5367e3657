"""Partitions of existing topics: ISR changes by leaders, elections, and changes of a broker's state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import constraints_of
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.request import PartitionData as AlteredPartition
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.alter_partition.v3.response import PartitionData as PartitionResponse
from kio.schema.alter_partition.v3.response import TopicData as TopicResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

from isthmus_broker.core.config.describe import effective_topic_text
from isthmus_broker.core.metadata.configs import layers_of
from isthmus_broker.core.metadata.image import (
    ELR_VERSION,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    Broker,
    ClusterImage,
    Partition,
    Topic,
    directory_of,
    has_online_directory,
    is_active,
)
from isthmus_broker.core.metadata.leader_preference import leading_order, topic_preference
from isthmus_broker.core.metadata.partition_change import RECOVERED, RECOVERING, Election, PartitionChange
from isthmus_broker.core.metadata.replay import NO_LEADER_CHANGE, merged
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result, check_size
from isthmus_broker.core.metadata.schema import MetadataRecord, PartitionChangeRecord
from isthmus_broker.core.replica.isr import members_with_observers
from isthmus_broker.core.replica.leadership import Leadership, isr_rules

PREFERRED_ELECTION = 0
UNCLEAN_ELECTION = 1
UNKNOWN_EPOCH = -1


def elr_enabled(image: ClusterImage) -> bool:
    return image.feature(ELR_VERSION) >= 1


def topic_setting(image: ClusterImage, context: ControllerContext, topic: str, key: str) -> str:
    """The effective value of a topic setting, as text: the topic's own, else its brokers', else Kafka's default."""
    text = effective_topic_text(layers_of(image, context), image.config(ResourceType.TOPIC, topic), key)
    assert text is not None, f"{key} has a default"
    return text


def effective_min_isr(image: ClusterImage, context: ControllerContext, topic: Topic) -> int:
    """The effective min.insync.replicas: never more than the number of replicas."""
    min_isr = int(topic_setting(image, context, topic.name, "min.insync.replicas"))
    return min(min_isr, len(topic.partitions[0].replicas))


def unclean_election_allowed(image: ClusterImage, context: ControllerContext, topic: str) -> bool:
    return topic_setting(image, context, topic, "unclean.leader.election.enable").strip().lower() == "true"


class ElectionRules(NamedTuple):
    """The settings of a topic about its leaders: looked up once if many of its partitions change together."""

    min_isr: int
    allows_unclean: bool
    preference: tuple[str, ...]


def election_rules(image: ClusterImage, context: ControllerContext, topic: Topic) -> ElectionRules:
    return ElectionRules(
        effective_min_isr(image, context, topic),
        unclean_election_allowed(image, context, topic.name),
        topic_preference(image, context, topic.name),
    )


def default_directory(image: ClusterImage, broker_id: int) -> UUID | None:
    """The directory of a new replica: a broker with several reports its choice later."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return None
    if not broker.log_dirs:
        return MIGRATING_DIRECTORY
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else None


def change_of(
    image: ClusterImage,
    context: ControllerContext,
    topic: Topic,
    partition: Partition,
    is_alive: Callable[[int], bool] | None = None,
    rules: ElectionRules | None = None,
) -> PartitionChange:
    """A change of the partition under the rules of its topic and the state of its brokers, to be completed by the caller."""

    def may_lead(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        alive = is_active(broker) if is_alive is None else is_alive(broker_id)
        if broker is None or not alive or broker_id not in partition.replicas:
            return alive and broker is not None
        return has_online_directory(broker, directory_of(partition, broker_id))

    obeyed = election_rules(image, context, topic) if rules is None else rules

    def order(replicas: tuple[int, ...], observers: tuple[int, ...]) -> tuple[int, ...]:
        return leading_order(image, replicas, observers, obeyed.preference)

    return PartitionChange(
        partition=partition,
        may_lead=may_lead,
        leading_order=order,
        min_isr=obeyed.min_isr,
        elr_enabled=elr_enabled(image),
        default_directory=lambda broker_id: default_directory(image, broker_id),
    )


def alter_partition(
    image: ClusterImage, request: AlterPartitionRequest, context: ControllerContext
) -> Result[AlterPartitionResponse]:
    """AlterPartition: a leader proposes another ISR. A refused partition does not affect the others."""
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    topics = []
    for requested in request.topics:
        topic = image.topics.by_id.get(requested.topic_id) if requested.topic_id is not None else None
        results = []
        for part in requested.partitions:
            try:
                if topic is None:
                    raise ControllerError(ErrorCode.unknown_topic_id)
                result, record = _alter_one(image, context, request.broker_id, topic, part)
                records += [record] if record is not None else []
            except ControllerError as refusal:
                result = _partition_response(part.partition_index, refusal.code, None)
                if refusal.code is ErrorCode.ineligible_replica:
                    # It raises the partition epoch: an older copy of the request, still on its way, may not be granted any more.
                    records.append(
                        PartitionChangeRecord(partition_id=part.partition_index, topic_id=requested.topic_id)
                    )
            results.append(result)
        topics.append(entity(TopicResponse, topic_id=requested.topic_id, partitions=tuple(results)))
    response = entity(
        AlterPartitionResponse, throttle_time=NO_THROTTLE, error_code=ErrorCode.none, topics=tuple(topics)
    )
    return Result(tuple(records), response)


def check_broker_epoch(image: ClusterImage, broker_id: int, epoch: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ControllerError(ErrorCode.stale_broker_epoch, f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != epoch:
        why = f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {epoch}"
        raise ControllerError(ErrorCode.stale_broker_epoch, why)
    return broker


def _alter_one(
    image: ClusterImage, context: ControllerContext, broker_id: int, topic: Topic, requested: AlteredPartition
) -> tuple[PartitionResponse, PartitionChangeRecord | None]:
    partition = topic.partitions.get(requested.partition_index)
    if partition is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition)
    isr = tuple(int(replica.broker_id) for replica in requested.new_isr_with_epochs)
    _check_proposal(partition, broker_id, requested, isr)
    for replica in requested.new_isr_with_epochs:
        broker = image.brokers.get(replica.broker_id)
        stale = broker is not None and replica.broker_epoch not in (UNKNOWN_EPOCH, broker.broker_epoch)
        if not is_active(broker) or stale:
            raise ControllerError(ErrorCode.ineligible_replica)
    _check_observers(image, context, topic, partition, isr)
    change = change_of(image, context, topic, partition)
    change.isr = isr
    change.recovery_state = requested.leader_recovery_state
    if unclean_election_allowed(image, context, topic.name):
        change.election = Election.UNCLEAN
    record = change.record()
    after = partition if record is None else merged(partition, record)
    # The change completed a reassignment and another replica is the leader now: the sender learns it from the metadata.
    deposed = record is not None and record.leader not in (broker_id, NO_LEADER_CHANGE)
    code = ErrorCode.new_leader_elected if deposed else ErrorCode.none
    return _partition_response(requested.partition_index, code, None if deposed else after), record


def _check_proposal(partition: Partition, broker_id: int, requested: AlteredPartition, isr: tuple[int, ...]) -> None:
    """The checks in Kafka's order. A proposal from the future means that this controller is stale."""
    refusals = (
        (requested.leader_epoch > partition.leader_epoch, ErrorCode.not_controller),
        (requested.partition_epoch > partition.partition_epoch, ErrorCode.not_controller),
        (requested.leader_epoch < partition.leader_epoch, ErrorCode.fenced_leader_epoch),
        (broker_id != partition.leader, ErrorCode.invalid_request),
        (requested.partition_epoch < partition.partition_epoch, ErrorCode.invalid_update_version),
        (len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas), ErrorCode.invalid_request),
        (partition.leader not in isr, ErrorCode.invalid_request),
        (requested.leader_recovery_state == RECOVERING and len(isr) > 1, ErrorCode.invalid_request),
        (
            partition.leader_recovery_state == RECOVERED and requested.leader_recovery_state == RECOVERING,
            ErrorCode.invalid_request,
        ),
    )
    for wrong, code in refusals:
        if wrong:
            raise ControllerError(code)


def _check_observers(
    image: ClusterImage, context: ControllerContext, topic: Topic, partition: Partition, isr: tuple[int, ...]
) -> None:
    """An observer may only join the ISR under the promotion policy, in the number that it allows."""
    observers = partition.observers or ()
    joining = [replica for replica in isr if replica in observers and replica not in partition.isr]
    if not joining:
        return
    rules = isr_rules(constraints_of(image.config(ResourceType.TOPIC, topic.name)))
    leadership = Leadership(partition.leader, partition.leader_epoch, partition.replicas, isr, observers=observers)
    isr_max = members_with_observers(partition.leader, leadership, rules, effective_min_isr(image, context, topic))
    if len(isr) > isr_max:
        raise ControllerError(ErrorCode.ineligible_replica)


def _partition_response(index: int, code: ErrorCode, partition: Partition | None) -> PartitionResponse:
    return entity(
        PartitionResponse,
        partition_index=index,
        error_code=code,
        leader_id=0 if partition is None else partition.leader,
        leader_epoch=0 if partition is None else partition.leader_epoch,
        isr=() if partition is None else partition.isr,
        leader_recovery_state=0 if partition is None else partition.leader_recovery_state,
        partition_epoch=0 if partition is None else partition.partition_epoch,
    )


def leader_and_isr_updates(
    image: ClusterImage,
    context: ControllerContext,
    partitions: Sequence[tuple[Topic, Partition]],
    *,
    leaving: int = NO_LEADER,
    coming: int = NO_LEADER,
    uncleanly_stopped: int = NO_LEADER,
) -> Iterator[PartitionChangeRecord]:
    """Change partitions when a broker leaves the ISR, returns, or turns out to have stopped uncleanly."""
    gone = {leaving, uncleanly_stopped}

    def is_alive(broker_id: int) -> bool:
        return broker_id not in gone and (broker_id == coming or is_active(image.brokers.get(broker_id)))

    rules: dict[UUID, ElectionRules] = {}
    for topic, partition in partitions:
        if topic.id not in rules:
            rules[topic.id] = election_rules(image, context, topic)
        change = change_of(image, context, topic, partition, is_alive, rules[topic.id])
        change.isr = tuple(replica for replica in partition.isr if replica not in gone)
        if uncleanly_stopped != NO_LEADER:
            change.uncleanly_stopped = (uncleanly_stopped,)
        if rules[topic.id].allows_unclean:
            change.election = Election.UNCLEAN
        record = change.record()
        if record is not None:
            yield record


def partitions_where(image: ClusterImage, matches: Callable[[Partition], bool]) -> list[tuple[Topic, Partition]]:
    """The partitions that match, ordered by topic name and partition."""
    return [
        (topic, partition)
        for _, topic_id in sorted(image.topics.ids.items())
        for topic in (image.topics.by_id[topic_id],)
        for _, partition in sorted(topic.partitions.items())
        if matches(partition)
    ]


def elect_leaders(
    image: ClusterImage, request: ElectLeadersRequest, context: ControllerContext
) -> Result[ElectLeadersResponse]:
    """Preferred or unclean elections, of the named partitions or of all."""
    if request.election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
        raise ControllerError(ErrorCode.invalid_request, f"Unknown election type {request.election_type}")
    election = Election.PREFERRED if request.election_type == PREFERRED_ELECTION else Election.UNCLEAN
    named = request.topic_partitions is not None
    if request.topic_partitions is None:
        requested = [
            (name, tuple(sorted(image.topics.by_id[topic_id].partitions)))
            for name, topic_id in sorted(image.topics.ids.items())
        ]
    else:
        requested = [(str(topic.topic), tuple(topic.partitions)) for topic in request.topic_partitions]
    records: list[MetadataRecord] = []
    results = []
    for name, indexes in requested:
        responses = []
        for index in indexes:
            code, message = ErrorCode.none, None
            try:
                records.append(_elect_one(image, context, name, index, election))
            except ControllerError as refusal:
                code, message = refusal.code, refusal.message
            if named or code is not ErrorCode.election_not_needed:
                responses.append(entity(PartitionResult, partition_id=index, error_code=code, error_message=message))
        results.append(entity(ReplicaElectionResult, topic=name, partition_result=tuple(responses)))
    check_size(records)
    response = entity(
        ElectLeadersResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        replica_election_results=tuple(results),
    )
    return Result(tuple(records), response)


def _elect_one(
    image: ClusterImage, context: ControllerContext, name: str, index: int, election: Election
) -> PartitionChangeRecord:
    topic = image.topics.named(name)
    if topic is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{index}")
    change = change_of(image, context, topic, partition)
    preferred = election is Election.PREFERRED
    if partition.leader == change.preferred_leader if preferred else partition.leader != NO_LEADER:
        raise ControllerError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
    change.election = election
    record = change.record()
    if record is None:
        if preferred:
            raise ControllerError(ErrorCode.preferred_leader_not_available, "The preferred leader was not available.")
        why = "Eligible topic partition leaders are not available."
        raise ControllerError(ErrorCode.eligible_leaders_not_available, why)
    return record
