"""StreamsGroupHeartbeat requests: their validation, in Kafka's order, and their fields in the coordinator's own types."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isthmus_model.internal_topics import INTERNAL_TOPICS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import to_millis
from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest, TaskIds
from kio.schema.streams_group_heartbeat.v0.request import Topology as WireTopology

from isthmus_broker.core.group.errors import CoordinatorError
from isthmus_broker.core.group.streams.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from isthmus_broker.core.group.streams.records import Endpoint
from isthmus_broker.core.group.streams.tasks import Assignment, tasks_of
from isthmus_broker.core.metadata.names import why_invalid


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat; None means unchanged."""

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int
    rack_id: str | None
    rebalance_timeout_ms: int | None
    topology: WireTopology | None
    owned: Assignment | None
    process_id: str | None
    user_endpoint: Endpoint | None
    client_tags: Mapping[str, str] | None
    requests_shutdown: bool

    @property
    def joins(self) -> bool:
        """Whether the member joins, or joins again."""
        return self.epoch == JOIN_EPOCH

    @property
    def leaves(self) -> bool:
        """Whether the member leaves."""
        return self.epoch == LEAVE_EPOCH


def read(request: StreamsGroupHeartbeatRequest) -> Beat:
    """The request's fields, if it is valid."""
    _check_topic_names(request.topology)
    _check_unsupported(request)
    _check(request)
    rebalance_timeout_ms = to_millis(request.rebalance_timeout)
    endpoint = request.user_endpoint
    tags = None if request.client_tags is None else {tag.key: tag.value for tag in request.client_tags}
    if tags is not None and len(tags) != len(request.client_tags or ()):
        raise CoordinatorError(ErrorCode.unknown_server_error)  # Kafka's response to a tag with two values
    return Beat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        rack_id=request.rack_id,
        rebalance_timeout_ms=None if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        topology=request.topology,
        owned=_owned(request.active_tasks, request.standby_tasks, request.warmup_tasks),
        process_id=request.process_id,
        user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=tags,
        requests_shutdown=request.shutdown_application,
    )


def _owned(
    active: tuple[TaskIds, ...] | None, standby: tuple[TaskIds, ...] | None, warmup: tuple[TaskIds, ...] | None
) -> Assignment | None:
    if active is None or standby is None or warmup is None:
        return None
    return Assignment(tasks_of(active), tasks_of(standby), tasks_of(warmup))


def _topic_names(topology: WireTopology) -> Iterable[str]:
    for part in topology.subtopologies:
        yield from part.source_topics
        yield from part.repartition_sink_topics
        yield from (topic.name for topic in part.repartition_source_topics)
        yield from (topic.name for topic in part.state_changelog_topics)


def _check_topic_names(topology: WireTopology | None) -> None:
    names = () if topology is None else tuple(dict.fromkeys(_topic_names(topology)))
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        message = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise CoordinatorError(ErrorCode.streams_invalid_topology, message)
    invalid = [name for name in names if why_invalid(name) is not None]
    if invalid:
        message = f"Topic names {','.join(invalid)} are not valid topic names."
        raise CoordinatorError(ErrorCode.streams_invalid_topology, message)


def _check_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    """Fields of the protocol that Kafka 4.3 does not support either."""
    _refuse_if(request.instance_id is not None, "Static membership is not yet supported.")
    _refuse_if(request.task_offsets is not None, "TaskOffsets are not supported yet.")
    _refuse_if(request.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
    _refuse_if(bool(request.warmup_tasks), "WarmupTasks are not supported yet.")
    parts = () if request.topology is None else request.topology.subtopologies
    has_regex = any(part.source_topic_regex for part in parts)
    _refuse_if(has_regex, "Regular expressions for source topics are not supported yet.")


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse_if(not request.member_id.strip(), "MemberId can't be empty.")
    _refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse_if(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        _refuse_if(True, "InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        _refuse_if(True, f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    given = [tasks is not None for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
    _refuse_if(any(given) and not all(given), "If one task-type is non-null, all must be non-null.")
    is_out_of_place = epoch != JOIN_EPOCH and request.topology is not None
    _refuse_if(is_out_of_place, "Topology can only be provided when (re-)joining.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    _refuse_if(to_millis(request.rebalance_timeout) == -1, "RebalanceTimeoutMs must be provided in first request.")
    for kind, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        _refuse_if(tasks is None or bool(tasks), f"{kind} must be empty when (re-)joining.")
    if request.topology is None:
        raise CoordinatorError(ErrorCode.invalid_request, "Topology must be non-null when (re-)joining.")
    for part in request.topology.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions != 0:
                message = f"Changelog topic {topic.name} must have an undefined partition count, but it is set to {topic.partitions}."
                raise CoordinatorError(ErrorCode.streams_invalid_topology, message)


def _refuse_if(condition: bool, message: str) -> None:
    if condition:
        raise CoordinatorError(ErrorCode.invalid_request, message)
