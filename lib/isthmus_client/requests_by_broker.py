"""Many questions, each for the broker it concerns: grouped by broker, asked at once, and those that failed for a moment asked again."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeVar

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, ConnectionFailed, GaveUp, Refused
from isthmus_client.metadata import Broker, TopicPartition
from isthmus_client.pool import SHORT_REQUESTS
from isthmus_client.retry import is_retriable

K = TypeVar("K")
W = TypeVar("W")
R = TypeVar("R")

Place = Callable[[Collection[K]], Awaitable[dict[K, Broker | Refused]]]
Send = Callable[[Connection, dict[K, W]], Awaitable[Mapping[K, R | ClientError]]]


async def by_leader(
    client: Client,
    what: str,
    wanted: Mapping[TopicPartition, W],
    send: Send[TopicPartition, W, R],
    lane: str = SHORT_REQUESTS,
) -> dict[TopicPartition, R | ClientError]:
    """Ask each partition's leader; every partition has a result or the error that lasted."""
    return await _scatter(client, what, wanted, client.leaders, send, lane)


async def by_coordinator(
    client: Client, what: str, wanted: Mapping[str, W], send: Send[str, W, R]
) -> dict[str, R | ClientError]:
    """Ask each group's coordinator; every group has a result or the error that lasted."""
    return await _scatter(client, what, wanted, client.coordinators, send, SHORT_REQUESTS)


def results(answers: Mapping[K, R | ClientError]) -> dict[K, R]:
    """The results alone; raises the first error."""
    for answer in answers.values():
        if isinstance(answer, ClientError):
            raise answer
    return {key: answer for key, answer in answers.items() if not isinstance(answer, ClientError)}


async def _scatter(
    client: Client, what: str, wanted: Mapping[K, W], place: Place[K], send: Send[K, W, R], lane: str
) -> dict[K, R | ClientError]:
    done: dict[K, R | ClientError] = {}
    pending = dict(wanted)

    async def attempt() -> None:
        answers = await _ask_once(client, pending, place, send, lane)
        passing: ClientError | None = None
        for key, answer in answers.items():
            if isinstance(answer, ClientError) and is_retriable(answer):
                client.invalidate(answer, [key] if isinstance(key, str) else ())
                done[key], passing = answer, answer
            else:
                done[key] = answer
                del pending[key]
        if passing is not None:
            raise passing

    try:
        await client.retry(what, attempt)
    except (GaveUp, Refused, ConnectionFailed) as error:
        done |= {key: done.get(key, error) for key in pending}
    return {key: done[key] for key in wanted}


async def _ask_once(
    client: Client, pending: Mapping[K, W], place: Place[K], send: Send[K, W, R], lane: str
) -> dict[K, R | ClientError]:
    answers: dict[K, R | ClientError] = {}
    shares: dict[Broker, dict[K, W]] = {}
    for key, broker in (await place(list(pending))).items():
        if isinstance(broker, Refused):
            answers[key] = broker
        else:
            shares.setdefault(broker, {})[key] = pending[key]

    async def ask(broker: Broker, share: dict[K, W]) -> None:
        try:
            answers.update(await send(await client.broker_connection(broker, lane), share))
        except ClientError as error:
            answers.update(dict.fromkeys(share, error))

    await asyncio.gather(*(ask(broker, share) for broker, share in shares.items()))
    return answers
