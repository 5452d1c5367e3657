"""How every group API is served: each part of the request by the shard its group lives in, then one answer of the parts."""

from functools import partial

from isthmus_wire.errors import ErrorCode

from isthmus_broker.core.coordinator.result import RequestContext
from isthmus_broker.core.group.fanout import gather, scatter
from isthmus_broker.core.group.responses import refuse
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def ask_groups(node: Services, request: Request) -> None:
    """Ask the shards that the request's groups live in."""
    header = request.header
    asked = request.decode()
    parts = scatter(asked, header.api_version, node.groups.topic_partitions())
    _ask(node, request, asked, parts)


def ask_every_shard(node: Services, request: Request) -> None:
    """Ask all shards of this node, for what is not about one group."""
    asked = request.decode()
    _ask(node, request, asked, [(partition, asked) for partition in node.groups.led()])


def _ask(node: Services, request: Request, asked: object, parts: list[tuple[int, object]]) -> None:
    context = _context(request)
    if not parts:
        request.respond(refuse(asked, context, ErrorCode.none))
        return
    answers: dict[int, object] = {}

    def answered(number: int, response: object) -> None:
        answers[number] = response
        if len(answers) == len(parts):
            request.respond(gather(asked, [answers[position] for position in range(len(parts))]))

    for number, (partition, part) in enumerate(parts):
        if not node.groups.submit(partition, part, context, partial(answered, number)):
            answered(number, refuse(part, context, ErrorCode.not_coordinator))


def _context(request: Request) -> RequestContext:
    header = request.header
    return RequestContext(
        api_version=header.api_version,
        client_id=header.client_id or "",
        client_host=f"/{request.connection.peer_host}",
    )
