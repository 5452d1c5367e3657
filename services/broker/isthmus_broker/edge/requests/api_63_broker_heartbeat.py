"""BrokerHeartbeat: a broker lives, and says what it wants; its connection is watched from then on."""

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

from isthmus_broker.core.metadata.brokers import broker_heartbeat
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import heartbeat_refused
from isthmus_broker.edge.requests.controller_requests import decide_here
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

OPERATION = ControllerOperation(broker_heartbeat, heartbeat_refused)


async def handle(node: NodeServices, request: Request) -> None:
    """A heartbeat that is refused says nothing about the broker it names."""
    asked: BrokerHeartbeatRequest = request.decode()
    response = await decide_here(node, asked)
    if response.error_code.value == 0:
        node.quorum.active.liveness.heard(asked.broker_id, asked.broker_epoch, request.connection)
    request.respond(response)
