"""Producer ids and their epochs: new ones for idempotent producers, and those of transactional ids."""

from typing import Any, Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import millis

from isthmus_client.client import Client
from isthmus_client.coordinators import TransactionalId
from isthmus_client.errors import check

NO_PRODUCER_ID: Final = ProducerId(-1, -1)
_EXPECTED_EPOCH_SINCE: Final = 3


async def new_producer_id(client: Client) -> ProducerId:
    """An id that no other producer has; raises ClientError."""
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

    request = entity(InitProducerIdRequest, transactional_id=None, transaction_timeout=millis(0))

    def verify(response: Any) -> None:
        check(response.error_code, "producer id")

    response = await client.send_to_any(ApiKey.INIT_PRODUCER_ID, request, verify)
    return ProducerId(response.producer_id, response.producer_epoch)


async def raise_epoch(
    client: Client, transactional_id: TransactionalId, timeout_ms: int, expected: ProducerId = NO_PRODUCER_ID
) -> ProducerId:
    """Abort the id's open transaction and raise its epoch, which fences other producers; with `expected`, only if that is current."""
    from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

    request = entity(
        InitProducerIdRequest,
        transactional_id=transactional_id.name,
        transaction_timeout=millis(timeout_ms),
        producer_id=expected.id,
        producer_epoch=expected.epoch,
    )

    def verify(response: Any) -> None:
        check(response.error_code, str(transactional_id))

    at_least = 0 if expected == NO_PRODUCER_ID else _EXPECTED_EPOCH_SINCE
    response = await client.send_to_coordinator(
        transactional_id, ApiKey.INIT_PRODUCER_ID, request, verify, at_least=at_least
    )
    return ProducerId(response.producer_id, response.producer_epoch)
