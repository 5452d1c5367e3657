"""Requests on many partitions or groups: grouped by broker, sent concurrently, and transient failures retried."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.coordinators import Coordinated, TransactionalId
from isthmus_client.errors import ClientError, ConnectionFailed, GaveUp, Refused
from isthmus_client.metadata import Broker, TopicPartition
from isthmus_client.pool import SHORT_REQUESTS
from isthmus_client.retry import is_retriable

K = TypeVar("K")
C = TypeVar("C", bound=Coordinated)
W = TypeVar("W")
R = TypeVar("R")

Place = Callable[[Collection[K]], Awaitable[dict[K, Broker | Refused]]]
Send = Callable[[Connection, dict[K, W]], Awaitable[Mapping[K, R | ClientError]]]


async def by_leader(
    client: Client,
    what: str,
    subjects: Mapping[TopicPartition, W],
    send: Send[TopicPartition, W, R],
    lane: str = SHORT_REQUESTS,
) -> dict[TopicPartition, R | ClientError]:
    """Send to each partition's leader; every partition has a result or its last error."""
    return await _send_by_broker(client, what, subjects, client.leaders, send, lane)


async def by_coordinator(
    client: Client, what: str, subjects: Mapping[C, W], send: Send[C, W, R]
) -> dict[C, R | ClientError]:
    """Send to each group's or transactional id's coordinator; every one has a result or its last error."""
    return await _send_by_broker(client, what, subjects, client.coordinators, send, SHORT_REQUESTS)


def results(outcomes: Mapping[K, R | ClientError]) -> dict[K, R]:
    """The results; raises the first error."""
    for outcome in outcomes.values():
        if isinstance(outcome, ClientError):
            raise outcome
    return {key: outcome for key, outcome in outcomes.items() if not isinstance(outcome, ClientError)}


async def _send_by_broker(
    client: Client, what: str, subjects: Mapping[K, W], place: Place[K], send: Send[K, W, R], lane: str
) -> dict[K, R | ClientError]:
    done: dict[K, R | ClientError] = {}
    pending = dict(subjects)

    async def attempt() -> None:
        outcomes = await _send_once(client, pending, place, send, lane)
        transient: ClientError | None = None
        for key, outcome in outcomes.items():
            if isinstance(outcome, ClientError) and is_retriable(outcome):
                client.invalidate(outcome, [key] if isinstance(key, str | TransactionalId) else ())
                done[key], transient = outcome, outcome
            else:
                done[key] = outcome
                del pending[key]
        if transient is not None:
            raise transient

    try:
        await client.retry(what, attempt)
    except (GaveUp, Refused, ConnectionFailed) as error:
        done |= {key: done.get(key, error) for key in pending}
    return {key: done[key] for key in subjects}


async def _send_once(
    client: Client, pending: Mapping[K, W], place: Place[K], send: Send[K, W, R], lane: str
) -> dict[K, R | ClientError]:
    outcomes: dict[K, R | ClientError] = {}
    shares: dict[Broker, dict[K, W]] = {}
    for key, broker in (await place(list(pending))).items():
        if isinstance(broker, Refused):
            outcomes[key] = broker
        else:
            shares.setdefault(broker, {})[key] = pending[key]

    async def send_share(broker: Broker, share: dict[K, W]) -> None:
        try:
            outcomes.update(await send(await client.broker_connection(broker, lane), share))
        except ClientError as error:
            outcomes.update(dict.fromkeys(share, error))

    await asyncio.gather(*(send_share(broker, share) for broker, share in shares.items()))
    return outcomes
