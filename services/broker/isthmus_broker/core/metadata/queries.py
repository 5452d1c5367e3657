"""Queries of the cluster and its topics: pure functions over a committed image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from isthmus_model.internal_topics import INTERNAL_TOPICS
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import NOT_ASKED, MetadataRequest, MetadataResponse
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.metadata.v13.response import MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic

from isthmus_broker.core.metadata.image import (
    NO_LEADER,
    Broker,
    ClusterImage,
    Partition,
    Topic,
    directory_of,
    has_online_directory,
)
from isthmus_broker.core.metadata.names import why_invalid
from isthmus_broker.core.metadata.schema import BrokerEndpoint

NO_CONTROLLER: Final = -1
BROKERS, CONTROLLERS = 1, 2


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


# Operations by the numbers of the protocol. Without an authorizer every operation is allowed.
_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 5, 7, 8, 9, 10, 11
_READ, _WRITE, _DELETE, _IDEMPOTENT_WRITE = 3, 4, 6, 12
TOPIC_OPERATIONS: Final = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)

# Changes in Metadata's responses: version 0 omits replicas that are not alive; since 6 a leader without the
# listener is distinguished from no leader.
FIRST_VERSION_WITH_DEAD_REPLICAS: Final = 1
FIRST_VERSION_WITH_LISTENER_ERRORS: Final = 6
FIRST_VERSION_WITH_IDS_ALONE: Final = 12


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as clients of one listener see it."""

    image: ClusterImage
    listener: str
    cluster_id: str
    recently_fenced: frozenset[int] = frozenset()
    """Brokers fenced so recently that Metadata still lists them."""

    def endpoint(self, broker: Broker | None) -> BrokerEndpoint | None:
        if broker is None:
            return None
        return next((endpoint for endpoint in broker.endpoints if endpoint.name == self.listener), None)

    def alive(self, broker_id: int) -> bool:
        """Whether the broker is unfenced and has this listener."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced and self.endpoint(broker) is not None

    def leader(self, partition: Partition) -> int:
        """The leader, if it has an endpoint for these clients."""
        is_reachable = self.endpoint(self.image.brokers.get(partition.leader)) is not None
        return partition.leader if is_reachable else NO_LEADER

    def offline(self, partition: Partition) -> tuple[int, ...]:
        return tuple(replica for replica in partition.replicas if not self._online(partition, replica))

    def _online(self, partition: Partition, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        if broker is None or not self.alive(broker_id):
            return False
        return has_online_directory(broker, directory_of(partition, broker_id))

    def controller_id(self) -> int:
        """Any broker that serves; it forwards requests for the controller."""
        alive = (broker.broker_id for broker in self.image.brokers.values() if not broker.fenced)
        return min(alive, default=NO_CONTROLLER)


def is_about_all_topics(request: MetadataRequest, version: int) -> bool:
    """Whether all topics are requested: by no list of topics, or by an empty one in version 0."""
    return request.topics is None or (version == 0 and not request.topics)


def missing_topics(image: ClusterImage, request: MetadataRequest) -> tuple[str, ...]:
    """Requested names that do not exist, each once: the candidates for automatic creation."""
    if request.topics is None or any(topic.topic_id is not None for topic in request.topics):
        return ()
    names = dict.fromkeys(str(topic.name) for topic in request.topics if topic.name is not None)
    return tuple(name for name in names if name not in image.topics.ids)


def metadata(
    view: View, request: MetadataRequest, version: int, creation: Mapping[str, ErrorCode] | None = None
) -> MetadataResponse:
    """The Metadata response. `creation` has the results of creating missing topics, if that was tried."""
    requested = request.topics or ()
    if version < FIRST_VERSION_WITH_IDS_ALONE and any(topic.name is None or topic.topic_id for topic in requested):
        return _refused_metadata(request, ErrorCode.invalid_request)
    ids = dict.fromkeys(topic.topic_id for topic in requested if topic.topic_id is not None)
    if not ids and any(topic.name is None for topic in requested):
        return _refused_metadata(request, ErrorCode.unknown_server_error)  # neither name nor id
    topics: list[MetadataResponseTopic] = []
    if is_about_all_topics(request, version):
        existing = [view.image.topics.by_id[topic_id] for _, topic_id in sorted(view.image.topics.ids.items())]
    elif ids:
        topics = [_topic_error(ErrorCode.unknown_topic_id, None, i) for i in ids if i not in view.image.topics.by_id]
        existing = [view.image.topics.by_id[i] for i in ids if i in view.image.topics.by_id]
    else:
        names = dict.fromkeys(str(topic.name) for topic in requested)
        existing = [topic for name in names if (topic := view.image.topics.named(name)) is not None]
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    topics += [_described_topic(view, topic, version, operations) for topic in existing]
    outcomes = creation or {}
    for name in missing_topics(view.image, request):
        absent = (
            ErrorCode.unknown_topic_or_partition if why_invalid(name) is None else ErrorCode.invalid_topic_exception
        )
        topics.append(_topic_error(outcomes.get(name, absent), name, None, operations))
    return entity(
        MetadataResponse,
        throttle_time=NO_THROTTLE,
        brokers=tuple(_brokers(view)),
        cluster_id=view.cluster_id,
        controller_id=view.controller_id(),
        topics=tuple(topics),
        cluster_authorized_operations=_cluster_operations(requested=request.include_cluster_authorized_operations),
        error_code=ErrorCode.none,
    )


def _refused_metadata(request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
    """Why the request is invalid: before version 12 topics are named by name only, and later by either name or id."""
    topics = tuple(_topic_error(code, str(t.name or ""), t.topic_id) for t in request.topics or ())
    return entity(MetadataResponse, throttle_time=NO_THROTTLE, brokers=(), topics=topics, error_code=code)


def _brokers(view: View) -> Iterable[MetadataResponseBroker]:
    for broker_id, broker in sorted(view.image.brokers.items()):
        endpoint = view.endpoint(broker)
        if endpoint is not None and (not broker.fenced or broker_id in view.recently_fenced):
            yield entity(
                MetadataResponseBroker, node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )


def _topic_error(
    code: ErrorCode, name: str | None, topic_id: UUID | None, operations: int = NOT_ASKED
) -> MetadataResponseTopic:
    return entity(
        MetadataResponseTopic,
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _described_topic(view: View, topic: Topic, version: int, operations: int) -> MetadataResponseTopic:
    return entity(
        MetadataResponseTopic,
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_described_partition(view, p, version) for _, p in sorted(topic.partitions.items())),
        topic_authorized_operations=operations,
    )


def _described_partition(view: View, partition: Partition, version: int) -> MetadataResponsePartition:
    replicas, isr = partition.replicas, partition.isr
    if version < FIRST_VERSION_WITH_DEAD_REPLICAS:
        replicas = tuple(filter(view.alive, replicas))
        isr = tuple(filter(view.alive, isr))
    leader = view.leader(partition)
    if leader == NO_LEADER:
        without_listener = partition.leader in view.image.brokers and version >= FIRST_VERSION_WITH_LISTENER_ERRORS
        code = ErrorCode.listener_not_found if without_listener else ErrorCode.leader_not_available
    else:
        hidden = len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)
        code = ErrorCode.replica_not_available if hidden else ErrorCode.none
    return entity(
        MetadataResponsePartition,
        error_code=code,
        partition_index=partition.partition_id,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline(partition),
    )


def _cluster_operations(*, requested: bool) -> int:
    return CLUSTER_OPERATIONS if requested else NOT_ASKED


def describe_cluster(view: View, request: DescribeClusterRequest, version: int) -> DescribeClusterResponse:
    """Brokers with their endpoints on a broker's listener; fenced ones since version 2, on request."""
    if request.endpoint_type != BROKERS:
        return _refused_cluster(request.endpoint_type, BROKERS, version)
    brokers = []
    for broker_id, broker in sorted(view.image.brokers.items()):
        endpoint = view.endpoint(broker)
        if endpoint is not None and (request.include_fenced_brokers or not broker.fenced):
            brokers.append(
                entity(
                    DescribeClusterBroker,
                    broker_id=broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                    is_fenced=broker.fenced,
                )
            )
    return entity(
        DescribeClusterResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        endpoint_type=BROKERS,
        cluster_id=view.cluster_id,
        controller_id=view.controller_id(),
        brokers=tuple(brokers),
        cluster_authorized_operations=_cluster_operations(requested=request.include_cluster_authorized_operations),
    )


def describe_controllers(
    view: View, request: DescribeClusterRequest, version: int, leader_id: int | None
) -> DescribeClusterResponse:
    """Registered controllers with their endpoints on a controller's listener, and the active one."""
    if request.endpoint_type != CONTROLLERS:
        return _refused_cluster(request.endpoint_type, CONTROLLERS, version)
    nodes = tuple(
        entity(
            DescribeClusterBroker, broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=None, is_fenced=False
        )
        for node_id, controller in sorted(view.image.controllers.items())
        for endpoint in controller.endpoints
        if endpoint.name == view.listener
    )
    return entity(
        DescribeClusterResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        endpoint_type=CONTROLLERS,
        cluster_id=view.cluster_id,
        controller_id=NO_CONTROLLER if leader_id is None else leader_id,
        brokers=nodes,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


_ENDPOINT_NAMES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def _refused_cluster(endpoint_type: int, here: int, version: int) -> DescribeClusterResponse:
    if endpoint_type in _ENDPOINT_NAMES:
        code = ErrorCode.mismatched_endpoint_type
        why = (
            f"The request was sent to an endpoint of type {_ENDPOINT_NAMES[here]}, but we wanted an endpoint of type "
            f"{_ENDPOINT_NAMES[endpoint_type]}"
        )
    else:
        code = ErrorCode.unsupported_endpoint_type
        why = f"Unsupported endpoint type {endpoint_type}"
    return entity(
        DescribeClusterResponse,
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.invalid_request if version == 0 else code,
        error_message=why,
        cluster_id="",
        brokers=(),
    )


def describe_topic_partitions(
    view: View, request: DescribeTopicPartitionsRequest, max_partitions: int
) -> DescribeTopicPartitionsResponse:
    """Partitions page by page, topics ordered by name; `max_partitions` is this broker's own page limit."""
    cursor = request.cursor
    start = str(cursor.topic_name) if cursor is not None else ""
    everything = not request.topics
    requested = view.image.topics.ids if everything else {str(topic.name) for topic in request.topics}
    names = sorted(name for name in requested if name >= start)
    if cursor is not None and (cursor.partition_index < 0 or not (everything or start in names)):
        return _refused_pages(request, ErrorCode.invalid_request)
    if "" in requested:
        return _refused_pages(request, ErrorCode.unknown_server_error)
    left = max(min(max_partitions, request.response_partition_limit), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    following: tuple[str, int] | None = None
    for name in names:
        if left == 0:
            following = (name, 0)
            break
        topic = view.image.topics.named(name)
        if topic is None:
            topics += [] if everything else [_absent_topic(name)]
            continue
        first = cursor.partition_index if cursor is not None and name == start else 0
        page = range(first, min(len(topic.partitions), first + left))
        topics.append(_paged_topic(view, topic, page))
        left -= len(page)
        if page.stop < len(topic.partitions) and first < len(topic.partitions):
            following = (name, page.stop)
            break
    return entity(
        DescribeTopicPartitionsResponse,
        throttle_time=NO_THROTTLE,
        topics=tuple(topics),
        next_cursor=None
        if following is None
        else entity(Cursor, topic_name=following[0], partition_index=following[1]),
    )


def _refused_pages(request: DescribeTopicPartitionsRequest, code: ErrorCode) -> DescribeTopicPartitionsResponse:
    refused = tuple(_failed_topic(code, str(topic.name)) for topic in request.topics)
    return entity(DescribeTopicPartitionsResponse, throttle_time=NO_THROTTLE, topics=refused)


def _absent_topic(name: str) -> DescribeTopicPartitionsResponseTopic:
    if why_invalid(name) is not None:
        return _failed_topic(ErrorCode.invalid_topic_exception, name, TOPIC_OPERATIONS)
    return _failed_topic(ErrorCode.unknown_topic_or_partition, name, TOPIC_OPERATIONS)


def _failed_topic(code: ErrorCode, name: str, operations: int = NOT_ASKED) -> DescribeTopicPartitionsResponseTopic:
    return entity(
        DescribeTopicPartitionsResponseTopic,
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _paged_topic(view: View, topic: Topic, page: range) -> DescribeTopicPartitionsResponseTopic:
    return entity(
        DescribeTopicPartitionsResponseTopic,
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(
            entity(
                DescribeTopicPartitionsResponsePartition,
                error_code=ErrorCode.none,
                partition_index=index,
                leader_id=view.leader(partition),
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.eligible_leader_replicas or (),
                last_known_elr=partition.last_known_elr or (),
                offline_replicas=view.offline(partition),
            )
            for index in page
            for partition in (topic.partitions[index],)
        ),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
