"""Responses that refuse a whole request to the active controller, one for each API, and how to recognise one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import DeleteTopicsRequest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse as ReplacedConfigs
from kio.schema.alter_configs.v2.response import AlterConfigsResponse
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse
from kio.schema.create_partitions.v3.request import CreatePartitionsRequest
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from isthmus_broker.core.metadata.result import ControllerError


def topics_not_created(request: CreateTopicsRequest, why: ControllerError) -> CreateTopicsResponse:
    """CreateTopics: the error in every topic."""
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


def topics_not_deleted(request: DeleteTopicsRequest, why: ControllerError) -> DeleteTopicsResponse:
    """DeleteTopics: the error in every topic."""
    named = [(name, None) for name in request.topic_names] + [(t.name, t.topic_id) for t in request.topics]
    results = tuple(
        entity(DeletableTopicResult, name=name, topic_id=topic_id, error_code=why.code) for name, topic_id in named
    )
    return entity(DeleteTopicsResponse, throttle_time=NO_THROTTLE, responses=results)


def partitions_not_created(request: CreatePartitionsRequest, why: ControllerError) -> CreatePartitionsResponse:
    """CreatePartitions: the error in every topic."""
    results = tuple(
        entity(CreatePartitionsTopicResult, name=topic.name, error_code=why.code, error_message=why.message)
        for topic in request.topics
    )
    return entity(CreatePartitionsResponse, throttle_time=NO_THROTTLE, results=results)


def configs_not_altered(request: Any, why: ControllerError) -> Any:
    """AlterConfigs and IncrementalAlterConfigs: the error in every resource."""
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


def leaders_not_elected(request: ElectLeadersRequest, why: ControllerError) -> ElectLeadersResponse:
    """ElectLeaders: the error in every partition."""
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


def _with_error(kind: type, **empty: Any) -> Callable[[Any, ControllerError], Any]:
    """A response with a single error code for the whole request."""

    def refuse(_request: Any, why: ControllerError) -> Any:
        return entity(kind, throttle_time=NO_THROTTLE, error_code=why.code, **empty)

    return refuse


def reassignments_not_altered(_request: Any, why: ControllerError) -> Any:
    """AlterPartitionReassignments: one error."""
    return entity(
        AlterPartitionReassignmentsResponse,
        throttle_time=NO_THROTTLE,
        error_code=why.code,
        error_message=why.message,
        responses=(),
    )


def broker_not_unregistered(_request: Any, why: ControllerError) -> UnregisterBrokerResponse:
    """UnregisterBroker: one error."""
    return entity(UnregisterBrokerResponse, throttle_time=NO_THROTTLE, error_code=why.code, error_message=why.message)


producer_ids_not_allocated = _with_error(AllocateProducerIdsResponse, producer_id_start=0, producer_id_len=0)
partition_not_altered = _with_error(AlterPartitionResponse, topics=())
replicas_not_assigned = _with_error(AssignReplicasToDirsResponse, directories=())
heartbeat_refused = _with_error(BrokerHeartbeatResponse, should_shut_down=False)
broker_not_registered = _with_error(BrokerRegistrationResponse)
controller_not_registered = _with_error(ControllerRegistrationResponse, error_message=None)
reassignments_not_listed = _with_error(ListPartitionReassignmentsResponse, error_message=None, topics=())
features_not_updated = _with_error(UpdateFeaturesResponse, error_message=None)


_PASS_ON: Final = (ErrorCode.not_controller, ErrorCode.not_leader_or_follower)


def says_not_controller(response: Any) -> bool:
    """Whether a response only reports that its sender is not the active controller: in every part, or in none."""
    if getattr(response, "error_code", ErrorCode.none) in _PASS_ON:
        return True
    if isinstance(response, AlterPartitionResponse | AssignReplicasToDirsResponse):
        return False  # in these the errors of single partitions are about the partitions themselves
    parts: tuple[Any, ...] = next((getattr(response, name) for name in _PARTS if hasattr(response, name)), ())
    return bool(parts) and says_not_controller(parts[0])


_PARTS: Final = ("topics", "responses", "results", "partitions")
