"""ListTransactions: the transactional ids whose coordinator is this node, filtered by state, producer, duration or name."""

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import ListTransactionsResponse, TransactionState

from isthmus_broker.core.transaction.requests import Description, ListTransactions
from isthmus_broker.core.transaction.states import BY_NAME
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


async def handle(node: Services, request: Request) -> None:
    """Unknown states are reported, and match nothing."""
    body: ListTransactionsRequest = request.decode()
    known = frozenset(BY_NAME[name] for name in body.state_filters if name in BY_NAME)
    unknown = tuple(dict.fromkeys(name for name in body.state_filters if name not in BY_NAME))
    listing = await node.transactions.list(
        ListTransactions(
            states=known,
            producer_ids=frozenset(body.producer_id_filters),
            duration_ms=body.duration_filter,
            pattern=body.transactional_id_pattern or "",
            only_unknown_states=bool(unknown) and not known,
        )
    )
    if listing.error is not ErrorCode.none:
        refuse(request, listing.error)
        return
    request.respond(
        ListTransactionsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            unknown_state_filters=unknown,
            transaction_states=tuple(map(_state, listing.transactions)),
        )
    )


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error."""
    request.respond(ListTransactionsResponse(throttle_time=NO_THROTTLE, error_code=error, transaction_states=()))


def _state(listed: Description) -> TransactionState:
    return entity(
        TransactionState,
        transactional_id=listed.transactional_id,
        producer_id=listed.producer.id,
        transaction_state=listed.state,
    )
