"""A cluster in memory: a controller's context and its image, with every decision replayed at once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from isthmus_broker.core.config.layers import BrokerLayers
from isthmus_broker.core.config.node_config import resolve_node, with_embedded_defaults
from isthmus_broker.core.metadata.broker_configs import AlterRequest, joined, refusals_here, without
from isthmus_broker.core.metadata.features import activation_records, supported_ranges
from isthmus_broker.core.metadata.history import ImageHistory
from isthmus_broker.core.metadata.image import ClusterImage, Partition, Topic
from isthmus_broker.core.metadata.operation import ControllerOperation, DecisionContext, KraftVersion
from isthmus_broker.core.metadata.result import ControllerContext, ControllerError, Result
from isthmus_broker.core.metadata.schema import (
    BrokerEndpoint,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from isthmus_broker.core.metadata.sessions import Sessions
from isthmus_broker.edge.requests.table import operation_of
from isthmus_model.clocks import MonotonicMs, WallMs
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from kio.schema.alter_configs.v2.request import AlterConfigsRequest
from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
SESSION_MS = 9_000


def directory(broker_id: int) -> UUID:
    return UUID(int=90_000 + broker_id)


def refused(request: Any, why: ControllerError) -> Any:
    """The response that refuses a request as a whole."""
    return operation_of(request.__api_key__).refuse(request, why)


class Cluster:
    def __init__(self, brokers: Sequence[int] = (1,), *, elr: bool = True, **static: str) -> None:
        given = {name.replace("_", "."): value for name, value in static.items()}
        node = resolve_node(BrokerLayers(with_embedded_defaults(given, "data")))
        self._next_id = 5_000
        self.kraft = KraftVersion(0, can_upgrade=False)
        self.context = ControllerContext(node=node, cluster_id=CLUSTER_ID, random=random.Random(7), new_id=self._new_id)
        self.history = ImageHistory()
        self.append(activation_records(self.image, self.context, in_transaction=False))
        if not elr:
            self.image_with_features({"eligible.leader.replicas.version": 0})
        self.sessions = Sessions(self.image, SESSION_MS, MonotonicMs(0))
        for broker_id in brokers:
            self.add_broker(broker_id)

    def _new_id(self) -> UUID:
        self._next_id += 1
        return UUID(int=self._next_id)

    @property
    def image(self) -> ClusterImage:
        return self.history.latest

    @property
    def next_offset(self) -> int:
        return self.history.latest_offset + 1

    def append(self, records: Sequence[MetadataRecord]) -> None:
        if records:
            self.history.append(records, self.history.latest_offset + len(records))

    def image_with_features(self, levels: Mapping[str, int]) -> None:
        self.append([FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()])

    def add_broker(self, broker_id: int, *, rack: str | None = None, fenced: bool = False) -> None:
        epoch = self.next_offset
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=UUID(int=70_000 + broker_id),
            broker_epoch=epoch,
            endpoints=(BrokerEndpoint(name="PLAINTEXT", host=f"host-{broker_id}", port=9092, security_protocol=0),),
            features=supported_ranges(),
            rack=rack,
            fenced=fenced,
            log_dirs=(directory(broker_id),),
        )
        self.append([record])
        self.sessions.touch(broker_id, epoch, epoch, MonotonicMs(0))

    def response_to(self, request: Any) -> Any:
        """The response to a request, whose records are replayed."""
        if isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest):
            return self._response_through_broker(request)
        result = self.decide(request)
        self.append(result.records)
        return result.response

    def decide(self, request: Any, now_ms: int = 0) -> Result[Any]:
        """The decision alone, at this time of both clocks."""
        context = DecisionContext.of(
            self.context,
            wall_ms=WallMs(now_ms),
            monotonic_ms=MonotonicMs(now_ms),
            sessions=self.sessions,
            next_offset=self.next_offset,
            kraft=self.kraft,
        )
        operation = operation_of(request.__api_key__)
        assert isinstance(operation, ControllerOperation)
        return operation.perform(self.image, request, context)

    def _response_through_broker(self, request: AlterRequest) -> Any:
        refusals = refusals_here(self.image, request, self.context)
        result = self.decide(without(request, refusals))
        self.append(result.records)
        return joined(result.response, refused(request, ControllerError(ErrorCode.none)), refusals)

    def records_of(self, request: Any) -> tuple[MetadataRecord, ...]:
        return self.decide(request).records

    def response_for_broker(self, request: Any, now_ms: int = 0) -> Any:
        result = self.decide(request, now_ms)
        self.append(result.records)
        return result.response

    def topic(self, name: str) -> Topic:
        topic = self.image.topics.named(name)
        assert topic is not None
        return topic

    def partition(self, name: str, index: int = 0) -> Partition:
        return self.topic(name).partitions[index]

    def put_topic(self, name: str, replicas: Sequence[int], partitions: int = 1, **given: Any) -> Topic:
        """Add a topic to the log without a request to the controller."""
        topic_id = self._new_id()
        fields: dict[str, Any] = {
            "replicas": tuple(replicas),
            "isr": tuple(replicas),
            "removing_replicas": (),
            "adding_replicas": (),
            "leader": replicas[0],
            "leader_epoch": 0,
            "partition_epoch": 0,
            "directories": tuple(directory(replica) for replica in given.get("replicas", replicas)),
            **given,
        }
        records: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id)]
        records += [PartitionRecord(partition_id=i, topic_id=topic_id, **fields) for i in range(partitions)]
        self.append(records)
        return self.topic(name)


def new_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assignments: Mapping[int, Sequence[int]] | Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, Mapping) else assignments
    return entity(
        CreatableTopic,
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else factor,
        assignments=tuple(
            entity(CreatableReplicaAssignment, partition_index=index, broker_ids=tuple(replicas))
            for index, replicas in pairs
        ),
        configs=tuple(entity(CreatableTopicConfig, name=n, value=v) for n, v in (configs or {}).items()),
    )


def creation(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return entity(CreateTopicsRequest, topics=topics, validate_only=validate_only)


def outcome(result: Any) -> tuple[ErrorCode, str | None]:
    return result.error_code, result.error_message
