"""The active controller's one door: a request and the latest image in, records and an answer out. It has no state of its own.

Requests are seen as the class of their highest version. The caller appends the records to the metadata log as one batch, tells
`ImageHistory` of them, and sends the response when they are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import DeleteTopicsRequest
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse as ReplacedConfigs
from kio.schema.alter_configs.v2.response import AlterConfigsResponse
from kio.schema.alter_partition.v3.request import AlterPartitionRequest
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest
from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.schema.update_features.v2.request import UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from isthmus_broker.core.metadata import (
    brokers,
    configs,
    directories,
    features,
    partitions,
    producer_ids,
    reassignments,
    topics,
)
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.metadata.result import ControllerContext, Refused, Result

_HANDLERS: Final[Mapping[type, Callable[[ClusterImage, Any, ControllerContext], Result[Any]]]] = {
    AllocateProducerIdsRequest: producer_ids.allocate_producer_ids,
    AlterConfigsRequest: configs.alter_configs,
    AlterPartitionReassignmentsRequest: reassignments.alter_partition_reassignments,
    AlterPartitionRequest: partitions.alter_partition,
    AssignReplicasToDirsRequest: directories.assign_replicas_to_dirs,
    ControllerRegistrationRequest: brokers.register_controller,
    CreatePartitionsRequest: topics.create_partitions,
    CreateTopicsRequest: topics.create_topics,
    DeleteTopicsRequest: topics.delete_topics,
    ElectLeadersRequest: partitions.elect_leaders,
    IncrementalAlterConfigsRequest: configs.incremental_alter_configs,
    ListPartitionReassignmentsRequest: reassignments.list_partition_reassignments,
    UnregisterBrokerRequest: brokers.unregister_broker,
    UpdateFeaturesRequest: features.update_features,
}


def decide(image: ClusterImage, request: Any, context: ControllerContext) -> Result[Any]:
    """What to append and to answer. A request that is refused as a whole has no records, and an answer that says so everywhere."""
    try:
        return _HANDLERS[type(request)](image, request, context)
    except Refused as refusal:
        return Result((), refused(request, refusal))


def refused(request: Any, why: Refused) -> Any:
    """The answer that refuses a request as a whole."""
    return _REFUSALS[type(request)](request, why)


def decide_for_broker(
    image: ClusterImage,
    request: BrokerRegistrationRequest | BrokerHeartbeatRequest,
    context: ControllerContext,
    sessions: brokers.Sessions,
    next_offset: int,
    now_ms: int,
) -> Result[Any]:
    """As `decide`, for the requests that depend on when brokers were last heard of and on where the log ends."""
    try:
        if isinstance(request, BrokerRegistrationRequest):
            return brokers.register_broker(image, request, context, sessions, next_offset, now_ms)
        return brokers.broker_heartbeat(image, request, context, sessions, next_offset, now_ms)
    except Refused as refusal:
        return Result((), refused(request, refusal))


_PASS_ON: Final = (ErrorCode.not_controller, ErrorCode.not_leader_or_follower)


def says_not_controller(response: Any) -> bool:
    """Whether a response only says that its sender is not the active controller. It says so everywhere, or nowhere."""
    if getattr(response, "error_code", ErrorCode.none) in _PASS_ON:
        return True
    if isinstance(response, AlterPartitionResponse | AssignReplicasToDirsResponse):
        return False  # what these say of single partitions is about those
    parts: tuple[Any, ...] = next((getattr(response, name) for name in _PARTS if hasattr(response, name)), ())
    return bool(parts) and says_not_controller(parts[0])


_PARTS: Final = ("topics", "responses", "results", "partitions")


def _topics_not_created(request: CreateTopicsRequest, why: Refused) -> CreateTopicsResponse:
    results = tuple(
        entity(
            CreatableTopicResult,
            name=topic.name,
            topic_id=None,
            error_code=why.code,
            error_message=why.message,
            configs=(),
        )
        for topic in request.topics
    )
    return entity(CreateTopicsResponse, throttle_time=NO_THROTTLE, topics=results)


def _topics_not_deleted(request: DeleteTopicsRequest, why: Refused) -> DeleteTopicsResponse:
    named = [(name, None) for name in request.topic_names] + [(t.name, t.topic_id) for t in request.topics]
    results = tuple(
        entity(DeletableTopicResult, name=name, topic_id=topic_id, error_code=why.code) for name, topic_id in named
    )
    return entity(DeleteTopicsResponse, throttle_time=NO_THROTTLE, responses=results)


def _partitions_not_created(request: CreatePartitionsRequest, why: Refused) -> CreatePartitionsResponse:
    results = tuple(
        entity(CreatePartitionsTopicResult, name=topic.name, error_code=why.code, error_message=why.message)
        for topic in request.topics
    )
    return entity(CreatePartitionsResponse, throttle_time=NO_THROTTLE, results=results)


def _configs_not_altered(request: Any, why: Refused) -> Any:
    replaced = isinstance(request, AlterConfigsRequest)
    responses = tuple(
        entity(
            ReplacedConfigs if replaced else AlterConfigsResourceResponse,
            error_code=why.code,
            error_message=why.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in request.resources
    )
    kind: type = AlterConfigsResponse if replaced else IncrementalAlterConfigsResponse
    return entity(kind, throttle_time=NO_THROTTLE, responses=responses)


def _leaders_not_elected(request: ElectLeadersRequest, why: Refused) -> ElectLeadersResponse:
    results = tuple(
        entity(
            ReplicaElectionResult,
            topic=topic.topic,
            partition_result=tuple(
                entity(PartitionResult, partition_id=index, error_code=why.code, error_message=why.message)
                for index in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return entity(
        ElectLeadersResponse, throttle_time=NO_THROTTLE, error_code=why.code, replica_election_results=results
    )


def _whole(kind: type, **empty: Any) -> Callable[[Any, Refused], Any]:
    """An answer with one error for all of it."""

    def answer(_request: Any, why: Refused) -> Any:
        return entity(kind, throttle_time=NO_THROTTLE, error_code=why.code, **empty)

    return answer


def _reassignments_refused(_request: Any, why: Refused) -> Any:
    return entity(
        AlterPartitionReassignmentsResponse,
        throttle_time=NO_THROTTLE,
        error_code=why.code,
        error_message=why.message,
        responses=(),
    )


def _unregistering_refused(_request: Any, why: Refused) -> UnregisterBrokerResponse:
    return entity(UnregisterBrokerResponse, throttle_time=NO_THROTTLE, error_code=why.code, error_message=why.message)


_REFUSALS: Final[Mapping[type, Callable[[Any, Refused], Any]]] = {
    AllocateProducerIdsRequest: _whole(AllocateProducerIdsResponse, producer_id_start=0, producer_id_len=0),
    AlterConfigsRequest: _configs_not_altered,
    AlterPartitionReassignmentsRequest: _reassignments_refused,
    AlterPartitionRequest: _whole(AlterPartitionResponse, topics=()),
    AssignReplicasToDirsRequest: _whole(AssignReplicasToDirsResponse, directories=()),
    BrokerHeartbeatRequest: _whole(BrokerHeartbeatResponse, should_shut_down=False),
    BrokerRegistrationRequest: _whole(BrokerRegistrationResponse),
    CreatePartitionsRequest: _partitions_not_created,
    CreateTopicsRequest: _topics_not_created,
    DeleteTopicsRequest: _topics_not_deleted,
    ElectLeadersRequest: _leaders_not_elected,
    IncrementalAlterConfigsRequest: _configs_not_altered,
    ControllerRegistrationRequest: _whole(ControllerRegistrationResponse, error_message=None),
    ListPartitionReassignmentsRequest: _whole(ListPartitionReassignmentsResponse, error_message=None, topics=()),
    UnregisterBrokerRequest: _unregistering_refused,
    UpdateFeaturesRequest: _whole(UpdateFeaturesResponse, error_message=None),
}
assert _REFUSALS.keys() == _HANDLERS.keys() | {BrokerRegistrationRequest, BrokerHeartbeatRequest}
