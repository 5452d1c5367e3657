"""`isthmus consume`: print records."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from isthmus_cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    complete_groups,
    complete_topics,
)

if TYPE_CHECKING:
    from isthmus_client.client import Client
    from isthmus_client.consumer import ConsumedRecord, Consumer
    from isthmus_client.metadata import TopicPartition

_POLL_SECONDS: Final = 0.5
_UNLIMITED: Final = sys.maxsize


class Isolation(StrEnum):
    """What a consumer may read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


Write = Callable[[Sequence["ConsumedRecord"]], None]


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topics)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    partition: Annotated[list[int] | None, typer.Option("--partition", help="Only this one; may be repeated.")] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the earliest record.")] = False,
    from_offset: Annotated[int | None, typer.Option("--from-offset", min=0)] = None,
    from_time: Annotated[str | None, typer.Option("--from-time", metavar="ISO-8601|MS")] = None,
    group: Annotated[
        str | None,
        typer.Option("-g", "--group", help="Share the topics with this group.", autocompletion=complete_groups),
    ] = None,
    max_messages: Annotated[int | None, typer.Option("-n", "--max-messages", min=1)] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Stop after this many seconds without a record.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("-e", "--until-end", help="Stop at the current end of the partitions.")
    ] = False,
    isolation: Annotated[
        Isolation,
        typer.Option(
            "--isolation-level",
            "--isolation",
            help="read_committed: skip aborted transactions, and wait for open ones to end.",
        ),
    ] = Isolation.READ_UNCOMMITTED,
    record_format: Annotated[
        str,
        typer.Option(
            "--format",
            help="%t topic, %p partition, %o offset, %T timestamp, %k key, %v value, %h headers, \\n, \\t.",
        ),
    ] = "%v\\n",
    output: OutputOption = Output.TABLE,
) -> None:
    """Print records until Ctrl-C, by default new ones only. With -o json one document per line."""
    from isthmus_cli.session import run

    if (from_beginning, from_offset is not None, from_time is not None).count(True) > 1:
        raise typer.BadParameter("give one of --from-beginning, --from-offset and --from-time")
    if group is not None and (partition or from_offset is not None or from_time is not None or until_end):
        raise typer.BadParameter(
            "a group determines its own partitions and offsets; only --from-beginning can be combined with --group",
            param_hint="'--group'",
        )
    start = _start(from_beginning, from_offset, from_time)
    write = _writer(record_format, output)
    most = max_messages or _UNLIMITED
    read_committed = isolation is Isolation.READ_COMMITTED

    async def work(client: Client) -> None:
        if group is not None:
            await _consume_group(client, group, topics, start, read_committed, write, most, timeout)
        else:
            partitions = await _partitions(client, topics, partition)
            await _consume_assigned(client, partitions, start, read_committed, write, most, timeout, until_end)

    run(bootstrap, work)


def _start(from_beginning: bool, from_offset: int | None, from_time: str | None) -> tuple[str, int]:
    """The start position: an offset, a time, or an `At`."""
    from isthmus_client.admin.list_offsets import At

    from isthmus_cli.reset_plan import parse_datetime

    if from_offset is not None:
        return "offset", from_offset
    if from_time is not None:
        try:
            return "time", int(from_time) if from_time.isdigit() else parse_datetime(from_time)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="'--from-time'") from error
    return "at", At.EARLIEST if from_beginning else At.LATEST


def _writer(record_format: str, output: Output) -> Write:
    from isthmus_cli.record_format import as_json, compile_format

    def json_line(consumed: ConsumedRecord) -> bytes:
        return json.dumps(as_json(consumed)).encode() + b"\n"

    try:
        line = json_line if output is Output.JSON else compile_format(record_format)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--format'") from error

    def write(records: Sequence[ConsumedRecord]) -> None:
        sys.stdout.buffer.write(b"".join(map(line, records)))
        sys.stdout.buffer.flush()

    return write


async def _partitions(client: Client, topics: list[str], chosen: list[int] | None) -> list[TopicPartition]:
    from isthmus_client.admin.topics import describe
    from isthmus_client.errors import ClientError
    from isthmus_client.metadata import TopicPartition

    described = await describe(client, topics)
    partitions = []
    for name, topic in described.items():
        for index in chosen or topic.partitions:
            if index not in topic.partitions:
                raise ClientError(f"topic {name} has no partition {index}; it has {len(topic.partitions)}")
            partitions.append(TopicPartition(name, index))
    return partitions


async def _consume_assigned(
    client: Client,
    partitions: list[TopicPartition],
    start: tuple[str, int],
    read_committed: bool,
    write: Write,
    most: int,
    seconds: float | None,
    until_end: bool,
) -> None:
    from isthmus_client.admin.list_offsets import At, list_offsets
    from isthmus_client.consumer import Consumer
    from isthmus_client.requests_by_broker import results

    ends: dict[TopicPartition, int] = {}
    if until_end:
        latest = await list_offsets(client, dict.fromkeys(partitions, int(At.LATEST)), read_committed=read_committed)
        ends = {partition: end.offset for partition, end in results(latest).items()}
    async with Consumer(client, read_committed=read_committed, reset=None) as consumer:
        await consumer.assign(await _starts(client, partitions, start))

        def at_end() -> bool:
            return until_end and all(consumer.position(tp) >= end for tp, end in ends.items())

        await _print(consumer, write, most, seconds, at_end, ends)


async def _starts(
    client: Client, partitions: list[TopicPartition], start: tuple[str, int]
) -> dict[TopicPartition, int]:
    from isthmus_client.admin.list_offsets import At, list_offsets
    from isthmus_client.requests_by_broker import results

    kind, number = start
    if kind != "time":
        return dict.fromkeys(partitions, number)
    offsets = results(await list_offsets(client, dict.fromkeys(partitions, number)))
    return {tp: one.offset if one.offset >= 0 else int(At.LATEST) for tp, one in offsets.items()}


async def _consume_group(
    client: Client,
    group: str,
    topics: list[str],
    start: tuple[str, int],
    read_committed: bool,
    write: Write,
    most: int,
    seconds: float | None,
) -> None:
    from isthmus_client.admin.list_offsets import At
    from isthmus_client.admin.topics import describe
    from isthmus_client.consumer import Consumer

    await describe(client, topics)  # a group may wait for a topic; a mistyped name should fail
    async with Consumer(
        client, group_id=group, topics=topics, read_committed=read_committed, reset=At(start[1])
    ) as consumer:
        await _print(consumer, write, most, seconds, lambda: False, {}, consumer.commit)


async def _print(
    consumer: Consumer,
    write: Write,
    most: int,
    seconds: float | None,
    at_end: Callable[[], bool],
    ends: dict[TopicPartition, int],
    after: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Read until the maximum number, the end, or the timeout is reached."""
    from isthmus_client.limits import POLL_RECORDS_MAX

    from isthmus_cli.progress import progress

    loop = asyncio.get_running_loop()
    last = loop.time()
    left = most
    with progress("records", most if most != _UNLIMITED else None, watched=not sys.stdout.isatty()) as advance:
        while left and not at_end():
            records = await consumer.poll(_POLL_SECONDS, min(left, POLL_RECORDS_MAX))
            if not records:
                if seconds is not None and loop.time() - last >= seconds:
                    return
                continue
            last = loop.time()
            selected = [one for one in records if one.record.offset < ends.get(one.partition, _UNLIMITED)]
            write(selected)
            left -= len(selected)
            advance(len(selected), sum(len(one.record.value or b"") for one in selected))
            if after is not None:
                await after()
