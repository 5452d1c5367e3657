"""DescribeTransactions: the state of transactional ids whose coordinator is this node."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, millis
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse, TopicData, TransactionState

from isthmus_broker.core.transaction.requests import DescribeTransaction, Description
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def handle(node: Services, request: Request) -> None:
    """Respond for every id in the request's order."""
    body: DescribeTransactionsRequest = request.decode()
    descriptions = [await _describe(node, transactional_id) for transactional_id in body.transactional_ids]
    _respond(request, descriptions)


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error for every id."""
    body: DescribeTransactionsRequest = request.decode()
    _respond(request, [Description(transactional_id=name, error=error) for name in body.transactional_ids])


async def _describe(node: Services, transactional_id: str) -> Description:
    if not transactional_id:
        return Description(transactional_id="", error=ErrorCode.invalid_request)
    description: Description = await node.transactions.call(DescribeTransaction(transactional_id))
    return description


def _respond(request: Request, descriptions: Iterable[Description]) -> None:
    states = tuple(map(_state, descriptions))
    request.respond(DescribeTransactionsResponse(throttle_time=NO_THROTTLE, transaction_states=states))


def _state(description: Description) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for topic, index in description.partitions:
        topics.setdefault(topic, []).append(index)
    return entity(
        TransactionState,
        error_code=description.error,
        transactional_id=description.transactional_id,
        transaction_state=description.state,
        transaction_timeout=millis(description.timeout_ms),
        transaction_start_time=_EPOCH + timedelta(milliseconds=description.start_ms),
        producer_id=description.producer.id,
        producer_epoch=description.producer.epoch,
        topics=tuple(entity(TopicData, topic=name, partitions=tuple(of)) for name, of in topics.items()),
    )
