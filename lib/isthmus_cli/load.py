"""`isthmus load`: a steady load on a topic, to see a cluster, a link or a region at work."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, complete_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from isthmus_client.client import Client

logger = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.1
_COMMIT_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0
_KEYS: Final = 1000


def load(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    rate: Annotated[int, typer.Option("--rate", min=1, max=100_000, help="Records a second.")] = 100,
    size: Annotated[int, typer.Option("--bytes", min=1, max=1_000_000, help="Bytes of each value.")] = 500,
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", help="A group that reads and commits; may be repeated.")
    ] = None,
) -> None:
    """Write records at a steady rate, with acks=all, until SIGTERM or Ctrl-C; failures are logged and retried."""
    from isthmus_service.logs import set_up_logs

    try:
        set_up_logs("load")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    asyncio.run(_run(bootstrap, topic, rate, size, group or []))


async def _run(bootstrap: str, topic: str, rate: int, size: int, groups: list[str]) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    work: list[Coroutine[None, None, None]] = [
        _insist(bootstrap, partial(_write, topic=topic, rate=rate, size=size)),
        *(_insist(bootstrap, partial(_read, topic=topic, group=group)) for group in groups),
    ]
    tasks = [asyncio.create_task(each) for each in work]
    print("ready", flush=True)
    await stopping.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _insist(bootstrap: str, work: Callable[[Client], Coroutine[None, None, None]]) -> None:
    """Retry with a new client when the cluster is unavailable."""
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_model.endpoints import parse_bootstrap

    while True:
        try:
            async with Client(parse_bootstrap(bootstrap), client_id="isthmus-load") as client:
                await work(client)
        except (ClientError, OSError) as error:
            logger.warning("%s; trying again", error)
        await asyncio.sleep(_RETRY_SECONDS)


async def _write(client: Client, topic: str, rate: int, size: int) -> None:
    """Write as many records per tick as the rate requires since the start, so that delays are made up for."""
    from isthmus_client.producer import Producer

    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0
    async with Producer(client) as producer:
        while True:
            due = int((loop.time() - began) * rate)
            deliveries = [
                await producer.send(topic, bytes(size), key=b"%d" % (number % _KEYS)) for number in range(sent, due)
            ]
            sent = due
            for delivery in deliveries:
                await delivery.place()
            await asyncio.sleep(_TICK_SECONDS)


async def _read(client: Client, topic: str, group: str) -> None:
    from isthmus_client.admin.list_offsets import At
    from isthmus_client.consumer import Consumer

    loop = asyncio.get_running_loop()
    committed_at = loop.time()
    async with Consumer(client, group_id=group, topics=[topic], reset=At.EARLIEST) as consumer:
        while True:
            await consumer.poll(_COMMIT_SECONDS)
            if loop.time() - committed_at >= _COMMIT_SECONDS:
                await consumer.commit()
                committed_at = loop.time()
