"""BrokerHeartbeat, versions 0 to 2: a broker lives, and says what it wants; its connection is watched from then on."""

from isthmus_wire.apis import ApiKey
from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

from isthmus_broker.edge.requests.ask_controller import decide_here
from isthmus_broker.edge.requests.registry import handles
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import Request


@handles(ApiKey.BROKER_HEARTBEAT)
async def broker_heartbeat(node: NodeServices, request: Request) -> None:
    """A heartbeat that is refused says nothing about the broker it names."""
    asked: BrokerHeartbeatRequest = request.decode()
    response = await decide_here(node, asked)
    if response.error_code.value == 0:
        node.quorum.active.liveness.heard(asked.broker_id, asked.broker_epoch, request.connection)
    request.respond(response)
