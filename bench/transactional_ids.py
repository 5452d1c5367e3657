"""Many transactional ids, from our own client: each one initialized, and one transaction of it committed."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Final

from isthmus_client.client import Client
from isthmus_client.coordinators import TransactionalId
from isthmus_client.errors import ClientError, check
from isthmus_client.transactional_producer import TransactionalProducer
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.messages import millis
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

# A broker processes one request of a connection at a time.
_CLIENTS: Final = 8
_PRODUCERS_OF_CLIENT: Final = 16
_VALUE: Final = bytes(100)
_TIMEOUT_MS: Final = 60_000
_ATTEMPT_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.005
_WAIT_SECONDS: Final = 120


def commit_once_each(bootstrap: str, topic: str, count: int) -> float:
    """One transaction of one record for each id; returns ids per second."""
    started = time.perf_counter()
    asyncio.run(_commit_all(bootstrap, topic, iter(range(count))))
    return count / (time.perf_counter() - started)


def seconds_to_first_producer_id(bootstrap: str, start: Callable[[], None]) -> float:
    """Time from `start` to the first success of InitProducerId, for an id that has committed a transaction."""
    started = time.perf_counter()
    start()
    asyncio.run(_initialize(bootstrap, started + _WAIT_SECONDS))
    return time.perf_counter() - started


async def _commit_all(bootstrap: str, topic: str, numbers: Iterator[int]) -> None:
    async with AsyncExitStack() as open_clients, asyncio.TaskGroup() as tasks:
        for _ in range(_CLIENTS):
            client = await open_clients.enter_async_context(Client(parse_bootstrap(bootstrap)))
            for _ in range(_PRODUCERS_OF_CLIENT):
                tasks.create_task(_commit_each(client, topic, numbers))


async def _commit_each(client: Client, topic: str, numbers: Iterator[int]) -> None:
    for number in numbers:
        async with TransactionalProducer(client, _name(number), timeout_ms=_TIMEOUT_MS, linger_seconds=0) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, _VALUE)


async def _initialize(bootstrap: str, deadline: float) -> None:
    """Without the client's own retries, which back off for longer than is to be measured."""
    transactional_id = TransactionalId(_name(0))
    request = entity(
        InitProducerIdRequest, transactional_id=transactional_id.name, transaction_timeout=millis(_TIMEOUT_MS)
    )
    while True:
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS), Client(parse_bootstrap(bootstrap)) as client:
                connection = await client.coordinator_connection(transactional_id)
                response = await connection.request(ApiKey.INIT_PRODUCER_ID, request)
            check(response.error_code, str(transactional_id))
            return
        except (ClientError, TimeoutError) as failure:
            if time.perf_counter() > deadline:
                raise RuntimeError(f"no producer id within {_WAIT_SECONDS} s") from failure
        await asyncio.sleep(_RETRY_SECONDS)


def _name(number: int) -> str:
    return f"bench-{number}"
