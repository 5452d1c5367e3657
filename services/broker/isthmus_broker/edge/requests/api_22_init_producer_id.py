"""InitProducerId: an id for an idempotent producer, or the next epoch for a transactional one, which fences the producer before."""

from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import NO_THROTTLE, to_millis
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse

from isthmus_broker.core.transaction.requests import NO_PRODUCER, InitProducer, Outcome
from isthmus_broker.edge.controller.controller_channel import ControllerUnreachable
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

FENCED_SINCE: Final = 4
"""The first version that knows PRODUCER_FENCED."""


async def handle(node: Services, request: Request) -> None:
    """Every call without a transactional id gets a new id with epoch 0."""
    body: InitProducerIdRequest = request.decode()
    expected = ProducerId(body.producer_id, body.producer_epoch)
    if (expected.id == NO_PRODUCER.id) != (expected.epoch == NO_PRODUCER.epoch):
        outcome = Outcome(ErrorCode.invalid_request)
    elif body.transactional_id is None:
        outcome = await _idempotent(node)
    else:
        outcome = await _transactional(node, body, None if expected == NO_PRODUCER else expected)
    error = outcome.error
    if error is ErrorCode.producer_fenced and request.header.api_version < FENCED_SINCE:
        error = ErrorCode.invalid_producer_epoch
    producer: Any = {"producer_id": outcome.producer.id, "producer_epoch": outcome.producer.epoch}
    request.respond(InitProducerIdResponse(throttle_time=NO_THROTTLE, error_code=error, **producer))


async def _idempotent(node: Services) -> Outcome:
    try:
        return Outcome(producer=ProducerId(await node.producer_ids.next(), 0))
    except ControllerUnreachable:
        return Outcome(ErrorCode.coordinator_load_in_progress)


async def _transactional(node: Services, body: InitProducerIdRequest, expected: ProducerId | None) -> Outcome:
    from isthmus_broker.core.transaction.producers import refuse_timeout

    if not body.transactional_id:
        return Outcome(ErrorCode.invalid_request)
    timeout_ms = to_millis(body.transaction_timeout)
    error = refuse_timeout(timeout_ms, node.config.settings.transaction_max_timeout_ms)
    if error is not None:
        return Outcome(error)
    call = InitProducer(transactional_id=body.transactional_id, timeout_ms=timeout_ms, expected=expected)
    outcome: Outcome = await node.transactions.call(call)
    return outcome
