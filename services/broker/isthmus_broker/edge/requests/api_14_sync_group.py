"""SyncGroup: the group's leader sends the assignment, each member receives its part."""

from typing import Final

from isthmus_wire.errors import ErrorCode
from kio.schema.sync_group.v5.request import SyncGroupRequest

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

__all__ = ["handle", "refuse"]

_PROTOCOL_SINCE: Final = 5


def handle(node: Services, request: Request) -> None:
    """Serve it by the group's shard, if it names the protocol."""
    body: SyncGroupRequest = request.decode()
    if request.header.api_version >= _PROTOCOL_SINCE and None in (body.protocol_type, body.protocol_name):
        refuse(request, ErrorCode.inconsistent_group_protocol)
        return
    serve_by_group_shards(node, request)
