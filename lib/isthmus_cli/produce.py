"""`isthmus produce`: write records."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, complete_topics

if TYPE_CHECKING:
    from isthmus_client.client import Client
    from isthmus_client.producer import Delivery

_READ_BYTES: Final = 256 * 1024
_UNCHECKED_MAX: Final = 100_000
"""Unchecked deliveries; beyond this the oldest is awaited."""


class Compression(StrEnum):
    """Codecs."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Required acknowledgements."""

    ALL = "all"
    ONE = "1"
    ZERO = "0"


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="Read this instead of standard input.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("-K", "--key-separator", help="Separator between key and value.")
    ] = None,
    null: Annotated[str | None, typer.Option("--null", help="A key or value of exactly this text is null.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="KEY=VALUE", help="On every record; may be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="By default the key's, or any.")] = None,
    compression: Annotated[Compression, typer.Option("-z", "--compression")] = Compression.NONE,
    acks: Annotated[Acks, typer.Option("--acks")] = Acks.ALL,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id",
            help="Write everything in one transaction of this id: committed at the end of the input, aborted after an error or Ctrl-C.",
        ),
    ] = None,
    transaction_timeout: Annotated[
        int,
        typer.Option(
            "--transaction-timeout-ms", min=1, help="With --transactional-id: the broker aborts after this time."
        ),
    ] = 60_000,
) -> None:
    """Write the lines of standard input, or of a file, as records."""
    from isthmus_client.errors import ClientError, MustAbort
    from isthmus_client.producer import Producer
    from isthmus_client.transactional_producer import TransactionalProducer
    from isthmus_wire.compression import Compression as Codec

    from isthmus_cli.session import fail, pairs, run

    if transactional_id is not None and acks is not Acks.ALL:
        raise typer.BadParameter("transactions need acks=all", param_hint="'--acks'")
    headers = [(name, value.encode()) for name, value in pairs(header, "--header").items()]
    separator = key_separator.encode() if key_separator is not None else None
    null_text = null.encode() if null is not None else None

    codec, words = Codec[compression.name], (separator, null_text)

    async def work(client: Client, source: BinaryIO) -> int:
        if transactional_id is None:
            async with Producer(client, acks=-1 if acks is Acks.ALL else int(acks), compression=codec) as producer:
                return await _produce(producer, source, topic, partition, headers, words)
        async with TransactionalProducer(
            client, transactional_id, timeout_ms=transaction_timeout, compression=codec
        ) as producer:
            await producer.init_transactions()
            try:
                async with producer.transaction():
                    return await _produce(producer, source, topic, partition, headers, words)
            except MustAbort as error:  # the block has done so
                raise ClientError(f"{error.__cause__}; the transaction was aborted") from error

    try:
        with file.open("rb") if file is not None else os.fdopen(os.dup(sys.stdin.fileno()), "rb") as source:
            count = run(bootstrap, lambda client: work(client, source))
    except ValueError as error:
        fail(str(error) if transactional_id is None else f"{error}; the transaction was aborted")
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}")
    scope = "" if transactional_id is None else " in one committed transaction"
    print(f"{count} records written to {topic}{scope}", file=sys.stderr)


async def _produce(
    producer: Any,
    source: BinaryIO,
    topic: str,
    partition: int | None,
    headers: list[tuple[str, bytes]],
    words: tuple[bytes | None, bytes | None],
) -> int:
    from isthmus_cli.progress import progress
    from isthmus_cli.record_format import split_line

    deliveries: deque[Delivery] = deque()
    count = 0
    # A progress bar would disturb typed input.
    with progress(f"to {topic}", None, watched=not source.isatty()) as advance:
        async for lines in _lines(source):
            for line in lines:
                key, value = split_line(line, *words)
                deliveries.append(await producer.send(topic, value, key=key, headers=headers, partition=partition))
            count += len(lines)
            await _check(deliveries)
            advance(len(lines), sum(map(len, lines)))
        await producer.flush()
        while deliveries:
            await deliveries.popleft().place()
    return count


async def _check(deliveries: deque[Delivery]) -> None:
    """Raise the first failure among finished deliveries."""
    while deliveries and (deliveries[0].done or len(deliveries) > _UNCHECKED_MAX):
        await deliveries.popleft().place()


async def _lines(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """The complete lines of each chunk, so that typed lines are sent immediately."""
    rest = b""
    while piece := await asyncio.to_thread(os.read, source.fileno(), _READ_BYTES):
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]
