"""InitProducerId: an id for an idempotent producer. Transactional producers are refused: transactions are not served."""

from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

_NONE: Final = -1


async def handle(node: Services, request: Request) -> None:
    """Every call without a transactional id gets a new id with epoch 0."""
    body: InitProducerIdRequest = request.decode()
    if body.transactional_id is not None:
        error = ErrorCode.transactional_id_authorization_failed if body.transactional_id else ErrorCode.invalid_request
        request.respond(_response(error, _NONE, _NONE))
        return
    if (body.producer_id == _NONE) != (body.producer_epoch == _NONE):
        request.respond(_response(ErrorCode.invalid_request, _NONE, _NONE))
        return
    try:
        producer_id = await node.producer_ids.next()
    except ControllerUnreachable:
        request.respond(_response(ErrorCode.coordinator_load_in_progress, _NONE, _NONE))
        return
    request.respond(_response(ErrorCode.none, producer_id, 0))


def _response(error: ErrorCode, producer_id: int, epoch: int) -> InitProducerIdResponse:
    fields: Any = {"producer_id": producer_id, "producer_epoch": epoch}
    return InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=error, **fields)
