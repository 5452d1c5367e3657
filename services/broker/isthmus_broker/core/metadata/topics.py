"""Topics: creating and deleting them, and adding partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_model.config_resources import ResourceType
from isthmus_model.constraints import CONSTRAINT_KEYS, Constraints, constraints_of
from isthmus_model.internal_topics import METADATA_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import DeleteTopicsRequest
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse

from isthmus_broker.core.config.constraints import default_constraints
from isthmus_broker.core.config.definitions.own import LEADER_PREFERENCE
from isthmus_broker.core.config.describe import effective_topic, effective_topic_text
from isthmus_broker.core.metadata.configs import Alteration, Operation, alter_resource, clear_elr, layers_of
from isthmus_broker.core.metadata.constrained_placement import Placed, observers_in, place_constrained
from isthmus_broker.core.metadata.image import ClusterImage, Partition, Resource, Topic, is_active
from isthmus_broker.core.metadata.leader_preference import leading_order, preference_of, topic_preference
from isthmus_broker.core.metadata.links import no_mirror_records
from isthmus_broker.core.metadata.names import collision_key, why_invalid
from isthmus_broker.core.metadata.partitions import default_directory
from isthmus_broker.core.metadata.placement import place, usable_brokers
from isthmus_broker.core.metadata.result import (
    MAX_PARTITIONS_PER_REQUEST,
    NOT_HOSTED,
    ControllerContext,
    ControllerError,
    Result,
    check_size,
)
from isthmus_broker.core.metadata.schema import MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

USE_DEFAULT: Final = -1
_TOO_MANY: Final = "Excessively large number of partitions per request."
_FENCED: Final = "All brokers are currently fenced or in controlled shutdown."
_NO_ID: Final = "This server does not host this topic ID."
Replicas = tuple[int, ...]


def create_topics(
    image: ClusterImage, request: CreateTopicsRequest, context: ControllerContext
) -> Result[CreateTopicsResponse]:
    """Create topics, each completely or not at all; too many partitions in total refuse the request."""
    times = Counter(str(topic.name) for topic in request.topics)
    single = [topic for topic in request.topics if times[topic.name] == 1 and topic.name != METADATA_TOPIC]
    _check_total(single, context)
    records: list[MetadataRecord] = []
    results = []
    for topic in single:
        try:
            creation = create_topic(image, topic, context)
            records += creation.records
            results.append(creation.result)
        except ControllerError as refusal:
            results.append(_refused_topic(topic.name, refusal))
    twice = ControllerError(ErrorCode.invalid_request, "Duplicate topic name.")
    results += [_refused_topic(name, twice) for name, count in times.items() if count > 1]
    if times[METADATA_TOPIC] == 1:
        why = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        results.append(_refused_topic(METADATA_TOPIC, ControllerError(ErrorCode.invalid_request, why)))
    check_size(records)
    response = entity(CreateTopicsResponse, throttle_time=NO_THROTTLE, topics=tuple(results))
    return Result(() if request.validate_only else tuple(records), response)


def _check_total(topics: Sequence[CreatableTopic], context: ControllerContext) -> None:
    total = 0
    for topic in topics:
        count = context.node.settings.num_partitions if topic.num_partitions == USE_DEFAULT else topic.num_partitions
        total += len(topic.assignments) or max(count, 0)
    if total > MAX_PARTITIONS_PER_REQUEST:
        raise ControllerError(ErrorCode.policy_violation, _TOO_MANY)


def _refused_topic(name: str, refusal: ControllerError) -> CreatableTopicResult:
    return entity(
        CreatableTopicResult,
        name=name,
        topic_id=None,
        error_code=refusal.code,
        error_message=refusal.message,
        configs=(),
    )


@dataclass(frozen=True, slots=True)
class Creation:
    """The records of a topic, and its part of the response."""

    records: list[MetadataRecord]
    result: CreatableTopicResult


def create_topic(image: ClusterImage, topic: CreatableTopic, context: ControllerContext) -> Creation:
    """Create one topic; raises ControllerError if it is refused."""
    _check_name(image, topic.name)
    settings = _settings(topic)
    _inherit_constraints(topic, settings, context)
    resource = Resource(ResourceType.TOPIC, topic.name)
    alterations = [Alteration(name, Operation.SET, value) for name, value in sorted(settings.items())]
    config_records = alter_resource(image, resource, alterations, context, is_new=True) if alterations else []
    preference = effective_topic_text(layers_of(image, context), settings, LEADER_PREFERENCE)
    rules = _Rules(constraints_of(settings), preference_of(preference))
    placed = _assigned(image, topic, rules) if topic.assignments else _placed(image, topic, context, rules)
    topic_id = context.new_id()
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id), *config_records]
    records += clear_elr(image, config_records)
    records += [
        _new_partition(image, topic_id, index, replicas, rules.preference) for index, replicas in enumerate(placed)
    ]
    described = effective_topic(layers_of(image, context), settings)
    result = entity(
        CreatableTopicResult,
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        num_partitions=len(placed),
        replication_factor=len(placed[0].replicas),
        configs=tuple(
            entity(
                CreatableTopicConfigs,
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=int(entry.source),
                is_sensitive=entry.sensitive,
            )
            for entry in described
        ),
    )
    return Creation(records, result)


def _check_name(image: ClusterImage, name: str) -> None:
    if name in image.topics.ids:
        raise ControllerError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    wrong = why_invalid(name)
    if wrong is not None:
        raise ControllerError(ErrorCode.invalid_topic_exception, wrong)
    key = collision_key(name)
    if key is None:
        return
    other = min((existing for existing in image.topics.ids if collision_key(existing) == key), default=None)
    if other is not None:
        raise ControllerError(
            ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {other}"
        )


def _settings(topic: CreatableTopic) -> dict[str, str]:
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise ControllerError(
            ErrorCode.invalid_config, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    return {config.name: config.value for config in topic.configs if config.value is not None}


class _Rules(NamedTuple):
    """The settings of a topic about the placement of its replicas."""

    constraints: Constraints | None
    preference: tuple[str, ...]

    def observers(self, image: ClusterImage, replicas: Replicas) -> Replicas:
        """The observers among assigned replicas; ControllerError if the assignment does not satisfy the constraints."""
        return () if self.constraints is None else observers_in(image, self.constraints, replicas)


def _rules_of(image: ClusterImage, context: ControllerContext, topic: Topic) -> _Rules:
    settings = image.config(ResourceType.TOPIC, topic.name)
    return _Rules(constraints_of(settings), topic_preference(image, context, topic.name))


def _inherit_constraints(topic: CreatableTopic, settings: dict[str, str], context: ControllerContext) -> None:
    """A topic without its own constraints permanently gets the brokers' constraints, if they have some."""
    constrained = any(settings.get(key) for key in CONSTRAINT_KEYS)
    chooses = bool(topic.assignments) or topic.replication_factor != USE_DEFAULT
    if constrained and topic.replication_factor != USE_DEFAULT:
        why = "A topic has a replication factor or placement constraints; set the replication factor to -1 for the latter."
        raise ControllerError(ErrorCode.invalid_replication_factor, why)
    default = default_constraints(context.node.values)
    if not constrained and not chooses and default is not None:
        settings[CONSTRAINT_KEYS[0]] = default


def _assigned(image: ClusterImage, topic: CreatableTopic, rules: _Rules) -> list[Placed]:
    """The replicas named in the request."""
    if topic.replication_factor != USE_DEFAULT:
        why = "A manual partition assignment was specified, but replication factor was not set to -1."
        raise ControllerError(ErrorCode.invalid_request, why)
    if topic.num_partitions != USE_DEFAULT:
        why = "A manual partition assignment was specified, but numPartitions was not set to -1."
        raise ControllerError(ErrorCode.invalid_request, why)
    placed: dict[int, Replicas] = {}
    factor: int | None = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in placed:
            why = f"Found multiple manual partition assignments for partition {index}"
            raise ControllerError(ErrorCode.invalid_replica_assignment, why)
        placed[index] = check_assignment(image, tuple(assignment.broker_ids), index, factor)
        factor = len(placed[index])
    if sorted(placed) != list(range(len(placed))):
        why = "partitions should be a consecutive 0-based integer sequence"
        raise ControllerError(ErrorCode.invalid_replica_assignment, why)
    return [Placed(placed[index], rules.observers(image, placed[index])) for index in range(len(placed))]


def check_assignment(image: ClusterImage, replicas: Replicas, index: int | None, factor: int | None) -> Replicas:
    """Validate a manual assignment; with the partition's index, some of its replicas must be able to lead."""
    start = "The manual partition assignment includes"
    why = None
    if not replicas:
        why = f"{start} an empty replica list."
    for broker_id in sorted(replicas):
        if why is None and broker_id not in image.brokers:
            why = f"{start} broker {broker_id}, but no such broker is registered."
        if why is None and replicas.count(broker_id) > 1:
            why = f"{start} the broker {broker_id} more than once."
    if why is None and factor is not None and len(replicas) != factor:
        why = (
            f"{start} a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {factor} replica(s)."
        )
    if why is None and index is not None and not any(is_active(image.brokers.get(r)) for r in replicas):
        why = (
            f"All brokers specified in the manual partition assignment for partition {index} "
            "are fenced or in controlled shutdown."
        )
    if why is not None:
        raise ControllerError(ErrorCode.invalid_replica_assignment, why)
    return replicas


def _placed(image: ClusterImage, topic: CreatableTopic, context: ControllerContext, rules: _Rules) -> list[Placed]:
    """The replicas as placed by the controller."""
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        why = "Replication factor must be larger than 0, or -1 to use the default value."
        raise ControllerError(ErrorCode.invalid_replication_factor, why)
    if topic.num_partitions < USE_DEFAULT or topic.num_partitions == 0:
        why = "Number of partitions was set to an invalid non-positive value."
        raise ControllerError(ErrorCode.invalid_partitions, why)
    settings = context.node.settings
    partitions = settings.num_partitions if topic.num_partitions == USE_DEFAULT else topic.num_partitions
    requested = int(topic.replication_factor)
    factor = settings.default_replication_factor if requested == USE_DEFAULT else requested
    try:
        return _place_active(image, context, partitions, factor, rules)
    except ControllerError as refusal:
        why = f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        raise ControllerError(refusal.code, why) from None


def _place_active(
    image: ClusterImage, context: ControllerContext, partitions: int, factor: int, rules: _Rules
) -> list[Placed]:
    brokers = usable_brokers(image)
    if rules.constraints is None:
        placed = [Placed(replicas) for replicas in place(brokers, partitions, factor, context.random)]
    else:
        placed = place_constrained(brokers, rules.constraints, partitions, context.random, rules.preference)
    for replicas, observers in placed:
        if not any(is_active(image.brokers.get(replica)) for replica in replicas if replica not in observers):
            raise ControllerError(ErrorCode.invalid_replication_factor, _FENCED)
    return placed


def _new_partition(
    image: ClusterImage, topic_id: UUID, index: int, placed: Placed, preference: Sequence[str]
) -> Partition:
    replicas, observers = placed
    isr = tuple(r for r in replicas if r not in observers and is_active(image.brokers.get(r)))
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=leading_order(image, isr, (), preference)[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(default_directory(image, replica) for replica in replicas),
        observers=observers or None,
    )


def delete_topics(
    image: ClusterImage, request: DeleteTopicsRequest, context: ControllerContext
) -> Result[DeleteTopicsResponse]:
    """Delete topics by name or by id; a topic that is named twice is not deleted."""
    if not context.node.settings.delete_topic_enable:
        raise ControllerError(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled.")
    named = [
        *map(str, request.topic_names),
        *(str(t.name) for t in request.topics if t.name is not None and not t.topic_id),
    ]
    wanted_ids = [topic.topic_id for topic in request.topics if topic.name is None and topic.topic_id is not None]
    results = [
        _deleted(topic.name, topic.topic_id, ErrorCode.invalid_request, _both_or_none(topic.name))
        for topic in request.topics
        if (topic.name is None) == (topic.topic_id is None)
    ]
    name_times, id_times = Counter(named), Counter(wanted_ids)
    doomed: dict[UUID, Topic] = {}
    for topic_id in id_times:
        topic = image.topics.by_id.get(topic_id)
        if id_times[topic_id] > 1:
            results.append(_deleted(None, topic_id, ErrorCode.invalid_request, "Duplicate topic id."))
        elif topic is None:
            results.append(_deleted(None, topic_id, ErrorCode.unknown_topic_id, _NO_ID))
        else:
            doomed[topic_id] = topic
    for name in name_times:
        topic = image.topics.named(name)
        if name_times[name] > 1:
            results.append(_deleted(name, None, ErrorCode.invalid_request, "Duplicate topic name."))
        elif topic is None:
            results.append(_deleted(name, None, ErrorCode.unknown_topic_or_partition, NOT_HOSTED))
        elif topic.id in id_times:
            doomed.pop(topic.id, None)
            why = "The provided topic name maps to an ID that was already supplied."
            results.append(_deleted(name, topic.id, ErrorCode.invalid_request, why))
        else:
            doomed[topic.id] = topic
    records: list[MetadataRecord] = []
    for topic_id, topic in doomed.items():
        records += [RemoveTopicRecord(topic_id=topic_id), *no_mirror_records(image, topic.name)]
    check_size(records)
    results += [_deleted(topic.name, topic_id, ErrorCode.none, None) for topic_id, topic in doomed.items()]
    return Result(tuple(records), entity(DeleteTopicsResponse, throttle_time=NO_THROTTLE, responses=tuple(results)))


def _both_or_none(name: str | None) -> str:
    if name is None:
        return "Neither topic name nor id were specified."
    return "You may not specify both topic name and topic id."


def _deleted(name: str | None, topic_id: UUID | None, code: ErrorCode, message: str | None) -> DeletableTopicResult:
    return entity(DeletableTopicResult, name=name, topic_id=topic_id, error_code=code, error_message=message)


def create_partitions(
    image: ClusterImage, request: CreatePartitionsRequest, context: ControllerContext
) -> Result[CreatePartitionsResponse]:
    times = Counter(str(topic.name) for topic in request.topics)
    records: list[MetadataRecord] = []
    results = [
        _added(name, ControllerError(ErrorCode.invalid_request, "Duplicate topic name."))
        for name, count in times.items()
        if count > 1
    ]
    for topic in request.topics:
        if times[topic.name] > 1:
            continue
        try:
            records += _add_partitions(image, topic, context)
            results.append(_added(topic.name, ControllerError(ErrorCode.none)))
        except ControllerError as refusal:
            results.append(_added(topic.name, refusal))
    check_size(records)
    response = entity(CreatePartitionsResponse, throttle_time=NO_THROTTLE, results=tuple(results))
    return Result(() if request.validate_only else tuple(records), response)


def _added(name: str, outcome: ControllerError) -> CreatePartitionsTopicResult:
    return entity(CreatePartitionsTopicResult, name=name, error_code=outcome.code, error_message=outcome.message)


def _add_partitions(
    image: ClusterImage, requested: CreatePartitionsTopic, context: ControllerContext
) -> list[Partition]:
    topic = image.topics.named(requested.name)
    if topic is None:
        raise ControllerError(ErrorCode.unknown_topic_or_partition)
    existing = len(topic.partitions)
    if requested.count == existing:
        raise ControllerError(ErrorCode.invalid_partitions, f"Topic already has {existing} partition(s).")
    if requested.count < existing:
        why = f"The topic {requested.name} currently has {existing} partition(s); {requested.count} would not be an increase."
        raise ControllerError(ErrorCode.invalid_partitions, why)
    additional = requested.count - existing
    if additional > MAX_PARTITIONS_PER_REQUEST:
        raise ControllerError(ErrorCode.policy_violation, _TOO_MANY)
    factor = len(topic.partitions[0].replicas)
    rules = _rules_of(image, context, topic)
    placed = _additional(image, context, requested, existing, factor, rules)
    return [
        _new_partition(image, topic.id, existing + step, replicas, rules.preference)
        for step, replicas in enumerate(placed)
    ]


def _additional(
    image: ClusterImage,
    context: ControllerContext,
    requested: CreatePartitionsTopic,
    existing: int,
    factor: int,
    rules: _Rules,
) -> list[Placed]:
    additional = requested.count - existing
    if requested.assignments is None:
        return _place_active(image, context, additional, factor, rules)
    if len(requested.assignments) != additional:
        why = (
            f"Attempted to add {additional} additional partition(s), but only {len(requested.assignments)} "
            "assignment(s) were specified."
        )
        raise ControllerError(ErrorCode.invalid_replica_assignment, why)
    assigned = [
        check_assignment(image, tuple(assignment.broker_ids), existing + step, factor)
        for step, assignment in enumerate(requested.assignments)
    ]
    return [Placed(replicas, rules.observers(image, replicas)) for replicas in assigned]
