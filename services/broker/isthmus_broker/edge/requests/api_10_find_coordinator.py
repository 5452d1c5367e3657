"""FindCoordinator: which broker coordinates a group; several keys since 4.

The coordinator of a group leads the partition of __consumer_offsets that the group's name falls into. The topic is made when somebody
asks for the first time; until it has leaders the answer is COORDINATOR_NOT_AVAILABLE, and clients ask again. Transactions and share
groups have no coordinator here.
"""

from typing import Any, Final

from isthmus_model.internal_topics import OFFSETS_TOPIC
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

from isthmus_broker.core.group.partition import group_partition
from isthmus_broker.edge.requests.services import Services, endpoint_of
from isthmus_broker.edge.transport.connection import Request

GROUP: Final = 0
BATCHED_SINCE: Final = 4
_UNKNOWN_TYPE: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""What Kafka's clients print for an invalid request; its brokers send the same words."""
_NAMES: Final = {1: "Transactions are", 2: "Share groups are"}


async def handle(node: Services, request: Request) -> None:
    """Answer for every key."""
    asked: FindCoordinatorRequest = request.decode()
    keys = asked.coordinator_keys if request.header.api_version >= BATCHED_SINCE else (asked.key,)
    found = [await _find(node, request, asked.key_type, key) for key in keys]
    if request.header.api_version >= BATCHED_SINCE:
        request.respond(FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=tuple(found)))
        return
    one = found[0]
    message = "NONE" if one.error_code is ErrorCode.none else one.error_message  # Kafka's name of no error
    told: dict[str, Any] = {"error_code": one.error_code, "error_message": message}
    request.respond(
        FindCoordinatorResponse(throttle_time=NO_THROTTLE, node_id=one.node_id, host=one.host, port=one.port, **told)
    )


async def _find(node: Services, request: Request, key_type: int, key: str) -> Coordinator:
    if key_type != GROUP:
        reason = f"{_NAMES[key_type]} not served by this broker" if key_type in _NAMES else _UNKNOWN_TYPE
        return _none(key, ErrorCode.invalid_request, reason)
    topic = node.image.topics.named(OFFSETS_TOPIC)
    if topic is None:
        await node.topics.create(OFFSETS_TOPIC)
        return _none(key, ErrorCode.coordinator_not_available)
    index = group_partition(key, len(topic.partitions))
    if node.replicas.held_requests and index in topic.partitions:
        await node.replicas.held_requests.settled((topic.partitions[index].leader,))
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
