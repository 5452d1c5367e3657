"""Requests about groups: each part is sent to its group's shard, and the responses are merged into one."""

from collections.abc import Callable
from functools import partial

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.group import responses
from isthmus_broker.core.group.request_parts import merge_responses, split_request
from isthmus_broker.core.metadata.image import GROUP_VERSION, STREAMS_VERSION
from isthmus_broker.edge.requests.services import NodeServices, Services
from isthmus_broker.edge.transport.connection import Request


def serve_by_group_shards(node: Services, request: Request) -> None:
    """Serve a request about one or several groups by the shards of these groups."""
    body = request.decode()
    _submit(node, request, body, split_request(body, request.header.api_version, node.groups.topic_partitions()))


def serve_consumer_protocol(node: Services, request: Request) -> None:
    """Serve a request of the consumer group protocol, if the settings and the cluster's features enable it."""
    if is_consumer_protocol_enabled(node):
        serve_by_group_shards(node, request)
    else:
        refuse(request, ErrorCode.unsupported_version)


def is_consumer_protocol_enabled(node: NodeServices) -> bool:
    """Whether group.coordinator.rebalance.protocols has it, and group.version is 1."""
    return (
        "consumer" in node.config.settings.group_coordinator_rebalance_protocols
        and node.image.feature(GROUP_VERSION) >= 1
    )


def serve_streams_protocol(node: Services, request: Request) -> None:
    """Serve a request of the streams group protocol, if the settings and the cluster's features enable it."""
    if is_streams_protocol_enabled(node):
        serve_by_group_shards(node, request)
    else:
        refuse(request, ErrorCode.unsupported_version)


def is_streams_protocol_enabled(node: NodeServices) -> bool:
    """Whether group.coordinator.rebalance.protocols has it, and streams.version is 1."""
    return (
        "streams" in node.config.settings.group_coordinator_rebalance_protocols
        and node.image.feature(STREAMS_VERSION) >= 1
    )


def submit(node: Services, request: Request, respond: Callable[[object], None]) -> None:
    """Pass a request about one group to its shard, whose response needs more work."""
    body, context = request.decode(), context_of(request)
    ((partition, part),) = split_request(body, request.header.api_version, node.groups.topic_partitions())
    if not node.groups.submit(partition, part, context, respond):
        respond(responses.refuse(part, context, ErrorCode.not_coordinator))


def serve_by_every_shard(node: Services, request: Request) -> None:
    """Serve a request that is not about particular groups by all shards of this node."""
    body = request.decode()
    _submit(node, request, body, [(partition, body) for partition in node.groups.partitions()])


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error for the whole request."""
    request.respond(responses.refuse(request.decode(), context_of(request), error))


def _submit(node: Services, request: Request, body: object, parts: list[tuple[int, object]]) -> None:
    context = context_of(request)
    if not parts:
        request.respond(responses.refuse(body, context, ErrorCode.none))
        return
    finished: dict[int, object] = {}

    def finish(number: int, response: object) -> None:
        finished[number] = response
        if len(finished) == len(parts):
            request.respond(merge_responses(body, [finished[position] for position in range(len(parts))]))

    for number, (partition, part) in enumerate(parts):
        if not node.groups.submit(partition, part, context, partial(finish, number)):
            finish(number, responses.refuse(part, context, ErrorCode.not_coordinator))


def context_of(request: Request) -> RequestContext:
    """The parts of the request that shards need."""
    header = request.header
    return RequestContext(
        api_version=header.api_version,
        client_id=header.client_id or "",
        client_host=f"/{request.connection.peer_host}",
    )
