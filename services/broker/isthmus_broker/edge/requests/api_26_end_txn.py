"""EndTxn: commit or abort a transaction. The response is sent when the decision is committed, and has the next epoch since version 5."""

from typing import Any, Final

from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse

from isthmus_broker.core.transaction.requests import VERSION_2, EndTransaction, Outcome
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.requests.transaction_requests import for_version
from isthmus_broker.edge.transport.connection import Request

EPOCH_SINCE: Final = 5
"""The first version whose producers get an epoch for each transaction."""


async def handle(node: Services, request: Request) -> None:
    """Decide the transaction."""
    body: EndTxnRequest = request.decode()
    version = request.header.api_version
    outcome = Outcome(ErrorCode.invalid_request)
    if body.transactional_id:
        outcome = await node.transactions.call(
            EndTransaction(
                transactional_id=body.transactional_id,
                producer=ProducerId(body.producer_id, body.producer_epoch),
                commits=body.committed,
                version=VERSION_2 if version >= EPOCH_SINCE else 0,
            )
        )
    producer: Any = {"producer_id": outcome.producer.id, "producer_epoch": outcome.producer.epoch}
    error = for_version(version, outcome.error)
    request.respond(EndTxnResponse(throttle_time=NO_THROTTLE, error_code=error, **producer))


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error."""
    request.respond(EndTxnResponse(throttle_time=NO_THROTTLE, error_code=error))
