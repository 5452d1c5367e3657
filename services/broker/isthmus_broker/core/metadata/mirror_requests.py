"""Mirror topics: creating them, changing their state, and leader epochs above the source's. Decisions of the active controller."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final
from uuid import UUID

from isthmus_model.clocks import WallMs
from isthmus_model.internal_topics import INTERNAL_TOPICS, METADATA_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import (
    ALWAYS_SYNCED_CONFIGS,
    AlteredMirror,
    AlterMirrorsRequest,
    AlterMirrorsResponse,
    CreateMirrorRequest,
    CreateMirrorResponse,
    FloorsOfTopic,
    MirrorAction,
    MirrorError,
    MirrorState,
    RaisedTopic,
    RaiseLeaderEpochsRequest,
    RaiseLeaderEpochsResponse,
    SourceTopic,
)
from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig

from isthmus_broker.core.links.settings import CONFIG_SYNC_INCLUDE, PREFIX, values_of
from isthmus_broker.core.links.transitions import after, why_not
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.link_requests import REPORTED_TEXT_MAX, named
from isthmus_broker.core.metadata.links import Link, Mirror, mirror_of, mirror_records
from isthmus_broker.core.metadata.mirror_stop import raised_to, stopped
from isthmus_broker.core.metadata.operation import DecisionContext
from isthmus_broker.core.metadata.result import (
    MAX_PARTITIONS_PER_REQUEST,
    ControllerContext,
    ControllerError,
    Result,
    check_size,
)
from isthmus_broker.core.metadata.schema import MetadataRecord
from isthmus_broker.core.metadata.topics import create_topic

LEADER_EPOCH_MAX: Final = (1 << 31) - 1 - 1_000_000
"""A higher floor is refused: it would leave a partition no epochs for its own elections."""


def create_mirror(
    image: ClusterImage, request: CreateMirrorRequest, context: DecisionContext
) -> Result[CreateMirrorResponse]:
    """Create a topic and its mirror state in one batch of records. The topic must not exist."""
    link = named(image, request.link_name)
    topic = mirror_name(link, request)
    source = request.source
    if source is None:
        why = "The request does not describe the source's topic; send it to a broker, which queries the source."
        raise ControllerError(ErrorCode.invalid_request, why)
    if source.partitions > MAX_PARTITIONS_PER_REQUEST:
        raise ControllerError(
            ErrorCode.policy_violation, f"A mirror topic has at most {MAX_PARTITIONS_PER_REQUEST} partitions."
        )
    creation = create_topic(image, _topic(link, topic, source, request), context)
    topic_id = creation.result.topic_id
    assert topic_id is not None, "a new topic has an id"
    mirror = Mirror(
        topic=topic,
        topic_id=topic_id,
        link_id=link.id,
        link_name=link.name,
        source_topic=request.source_topic,
        source_topic_id=source.topic_id,
        state=MirrorState.ACTIVE,
        since_ms=context.wall_ms,
    )
    records = (*creation.records, *mirror_records(image, mirror))
    check_size(records)
    made = () if request.validate_only else records
    return Result(made, _created(ErrorCode.none, None, topic, None if request.validate_only else topic_id))


def mirror_name(link: Link, request: CreateMirrorRequest) -> str:
    """The mirror topic's name; ControllerError for a source topic that cannot have one, or for another name than the link's prefix results
    in."""
    if request.source_topic in INTERNAL_TOPICS or request.source_topic == METADATA_TOPIC:
        why = f"'{request.source_topic}' is an internal topic, which belongs to its own cluster."
        raise ControllerError(ErrorCode.invalid_topic_exception, why)
    name = f"{values_of(link.settings)[PREFIX] or ''}{request.source_topic}"
    if request.mirror_topic not in (None, name):
        why = f"Link '{link.name}' names the mirror of '{request.source_topic}' '{name}', not '{request.mirror_topic}'."
        raise ControllerError(ErrorCode.invalid_request, why)
    return name


def _topic(link: Link, name: str, source: SourceTopic, request: CreateMirrorRequest) -> CreatableTopic:
    """The mirror topic's settings: always synced ones from the source, followed ones initially from it, unless the request sets them."""
    requested = {config.name: config.value for config in request.configs}
    wrong = sorted(requested.keys() & set(ALWAYS_SYNCED_CONFIGS))
    if wrong:
        raise ControllerError(ErrorCode.invalid_config, f"A mirror topic always has its source's {', '.join(wrong)}.")
    include = values_of(link.settings)[CONFIG_SYNC_INCLUDE]
    assert isinstance(include, tuple), "a list, by its definition"
    followed = {*ALWAYS_SYNCED_CONFIGS, *include}
    settings = {config.name: config.value for config in source.configs if config.name in followed} | requested
    return entity(
        CreatableTopic,
        name=name,
        num_partitions=source.partitions,
        replication_factor=request.replication_factor,
        assignments=(),
        configs=tuple(entity(CreatableTopicConfig, name=key, value=value) for key, value in sorted(settings.items())),
    )


def _created(code: ErrorCode, message: str | None, topic: str, topic_id: UUID | None) -> CreateMirrorResponse:
    return CreateMirrorResponse(error_code=code, error_message=message, topic=topic, topic_id=topic_id)


def alter_mirrors(
    image: ClusterImage, request: AlterMirrorsRequest, context: DecisionContext
) -> Result[AlterMirrorsResponse]:
    """Change each topic on its own. The broker that forwards this has checked that topics to be promoted have caught up."""
    if request.action not in list(MirrorAction):
        raise ControllerError(ErrorCode.invalid_request, f"There is no action '{request.action}'.")
    action = MirrorAction(request.action)
    if action is MirrorAction.FAIL and request.mirror_error not in list(MirrorError):
        raise ControllerError(ErrorCode.invalid_request, f"There is no error '{request.mirror_error}'.")
    times = Counter(request.topics)
    records: list[MetadataRecord] = []
    results = []
    for topic in request.topics:
        try:
            if times[topic] > 1:
                raise ControllerError(ErrorCode.invalid_request, f"Topic '{topic}' is named more than once.")
            records += _altered(image, _mirror(image, topic), action, request, context.wall_ms)
            results.append(_result(topic, ErrorCode.none, None))
        except ControllerError as refusal:
            results.append(_result(topic, refusal.code, refusal.message))
    check_size(records)
    response = AlterMirrorsResponse(topics=tuple(results))
    return Result(() if request.validate_only else tuple(records), response)


def _result(topic: str, code: ErrorCode, message: str | None) -> AlteredMirror:
    return AlteredMirror(topic=topic, error_code=code, error_message=message, lags=())


def _mirror(image: ClusterImage, topic: str) -> Mirror:
    mirror = mirror_of(image, topic)
    if mirror is None:
        exists = topic in image.topics.ids
        why = f"Topic '{topic}' is no mirror topic." if exists else f"There is no topic '{topic}'."
        raise ControllerError(ErrorCode.invalid_request if exists else ErrorCode.unknown_topic_or_partition, why)
    return mirror


def _altered(
    image: ClusterImage, mirror: Mirror, action: MirrorAction, request: AlterMirrorsRequest, now_ms: WallMs
) -> list[MetadataRecord]:
    target = after(mirror.state, action)
    if target is None:
        why = f"Mirror topic '{mirror.topic}' cannot {action}: {why_not(mirror.state, action)}"
        raise ControllerError(ErrorCode.invalid_request, why)
    if target is mirror.state:
        return []
    if target is MirrorState.STOPPED:
        return stopped(image, mirror, now_ms)
    failed = action is MirrorAction.FAIL
    changed = replace(
        mirror,
        state=target,
        since_ms=now_ms,
        error=request.mirror_error if failed else MirrorError.NO_ERROR,
        error_message=request.mirror_error_message[:REPORTED_TEXT_MAX] if failed else "",
    )
    return [*mirror_records(image, changed)]


def raise_leader_epochs(
    image: ClusterImage, request: RaiseLeaderEpochsRequest, _context: ControllerContext
) -> Result[RaiseLeaderEpochsResponse]:
    """Raise leader epochs before batches of a new epoch of the source arrive. An epoch that is high enough already is unchanged."""
    times = Counter(topic.name for topic in request.topics)
    records: list[MetadataRecord] = []
    results = []
    for topic in request.topics:
        code, message = ErrorCode.none, None
        try:
            if times[topic.name] > 1:
                raise ControllerError(ErrorCode.invalid_request, f"Topic '{topic.name}' is named more than once.")
            records += _raised(image, _mirror(image, topic.name), topic)
        except ControllerError as refusal:
            code, message = refusal.code, refusal.message
        results.append(RaisedTopic(name=topic.name, error_code=code, error_message=message))
    check_size(records)
    return Result(tuple(records), RaiseLeaderEpochsResponse(topics=tuple(results)))


def _raised(image: ClusterImage, mirror: Mirror, topic: FloorsOfTopic) -> list[MetadataRecord]:
    if mirror.state is MirrorState.STOPPED:
        why = f"Mirror topic '{mirror.topic}' is stopped; its leader epochs are its own."
        raise ControllerError(ErrorCode.policy_violation, why)
    floors = {floor.index: floor.at_least for floor in topic.partitions}
    if max(floors.values(), default=0) > LEADER_EPOCH_MAX:
        raise ControllerError(ErrorCode.invalid_request, f"A leader epoch is not raised above {LEADER_EPOCH_MAX}.")
    partitions = image.topics.by_id[mirror.topic_id].partitions
    if not floors.keys() <= partitions.keys():
        raise ControllerError(
            ErrorCode.unknown_topic_or_partition, f"Topic '{mirror.topic}' has not all of these partitions."
        )
    return [
        raised_to(partitions[index], floor)
        for index, floor in sorted(floors.items())
        if floor > partitions[index].leader_epoch
    ]
