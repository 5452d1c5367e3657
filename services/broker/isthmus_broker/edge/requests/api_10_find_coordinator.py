"""FindCoordinator: the coordinator of a group or of a transactional id; several keys since 4.

The coordinator is the leader of the partition of __consumer_offsets or __transaction_state to which the key hashes. The topic is created
on the first request; until it has leaders the response is COORDINATOR_NOT_AVAILABLE, and clients retry. Share groups have no coordinator
here.
"""

from typing import Any, Final

from isthmus_model.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

from isthmus_broker.core.coordinator.partition import coordinator_partition
from isthmus_broker.edge.requests.services import Services, endpoint_of
from isthmus_broker.edge.transport.connection import Request

_TOPICS: Final = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
"""By key type."""
BATCHED_SINCE: Final = 4
_UNKNOWN_TYPE: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""Printed by Kafka's clients for an invalid request; Kafka's brokers send the same text."""
_NOT_SERVED: Final = {2: "Share groups are not served by this broker"}


async def handle(node: Services, request: Request) -> None:
    """Respond for every key."""
    body: FindCoordinatorRequest = request.decode()
    keys = body.coordinator_keys if request.header.api_version >= BATCHED_SINCE else (body.key,)
    coordinators = [await _find(node, request, body.key_type, key) for key in keys]
    if request.header.api_version >= BATCHED_SINCE:
        request.respond(FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(coordinators)))
        return
    first = coordinators[0]
    message = "NONE" if first.error_code is ErrorCode.none else first.error_message  # Kafka's name of no error
    error_fields: dict[str, Any] = {"error_code": first.error_code, "error_message": message}
    request.respond(
        FindCoordinatorResponse(
            throttle_time=NO_THROTTLE, node_id=first.node_id, host=first.host, port=first.port, **error_fields
        )
    )


async def _find(node: Services, request: Request, key_type: int, key: str) -> Coordinator:
    name = _TOPICS.get(key_type)
    if name is None:
        return _none(key, ErrorCode.invalid_request, _NOT_SERVED.get(key_type, _UNKNOWN_TYPE))
    topic = node.image.topics.named(name)
    if topic is None:
        await node.topics.create(name)
        return _none(key, ErrorCode.coordinator_not_available)
    index = coordinator_partition(key, len(topic.partitions))
    if index in topic.partitions:
        await node.replicas.delayed_requests.settled(lambda: (topic.partitions[index].leader,))
    partition = node.image.topics.partition(topic.id, index)
    broker = None if partition is None else node.image.brokers.get(partition.leader)
    endpoint = endpoint_of(broker, request.connection.listener_name)
    if broker is None or endpoint is None:
        return _none(key, ErrorCode.coordinator_not_available)
    return Coordinator(
        key=key,
        node_id=broker.broker_id,
        host=endpoint.host,
        port=endpoint.port,
        error_code=ErrorCode.none,
        error_message="",
    )


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
