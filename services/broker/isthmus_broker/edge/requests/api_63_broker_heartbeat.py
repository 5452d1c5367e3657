"""BrokerHeartbeat: a broker is alive, and reports the state it wants to be in. Its connection is monitored from then on."""

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

from isthmus_broker.core.metadata.brokers import broker_heartbeat
from isthmus_broker.core.metadata.operation import ControllerOperation
from isthmus_broker.core.metadata.refusals import heartbeat_refused
from isthmus_broker.edge.requests.controller_requests import decide_here
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request

OPERATION = ControllerOperation(broker_heartbeat, heartbeat_refused)


async def handle(node: NodeServices, request: Request) -> None:
    """A refused heartbeat does not count as a sign of life of the broker it names."""
    body: BrokerHeartbeatRequest = request.decode()
    response = await decide_here(node, body)
    if response.error_code.value == 0:
        node.quorum.active.liveness.record_heartbeat(body.broker_id, body.broker_epoch, request.connection)
    request.respond(response)
