"""`isthmus group reset-offsets`: shows a group's new offsets, and sets them with --execute."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

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
    from isthmus_client.admin.group_offsets import Committed
    from isthmus_client.client import Client
    from isthmus_client.metadata import TopicPartition

ScopeOption = Annotated[
    list[str],
    typer.Option("--topic", metavar="TOPIC[:0,1,...]", help="May be repeated.", autocompletion=complete_topics),
]
_INACTIVE: Final = frozenset({"Empty", "Dead"})


class Target(NamedTuple):
    """The target of a reset: its kind, and a number or offsets."""

    way: str
    number: int = 0
    offsets: dict[TopicPartition, int] | None = None


def reset_command(
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    topics: ScopeOption = [],  # noqa: B006 - typer needs a list; it is never changed
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All topics that the group has offsets of.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="The current offsets, clamped to existing ones.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset")] = None,
    to_datetime: Annotated[str | None, typer.Option("--to-datetime", metavar="ISO-8601")] = None,
    by_duration: Annotated[str | None, typer.Option("--by-duration", metavar="PT1H", help="This long ago.")] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", help="Forward; back if negative.")] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from-file", help="Lines topic,partition,offset, as --export writes them.")
    ] = None,
    export: Annotated[bool, typer.Option("--export", help="Print such lines; change nothing.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Set the offsets; without it nothing is changed.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Reset a group's offsets; the group must have no members. Changes nothing without --execute."""
    from isthmus_cli.output import show_rows
    from isthmus_cli.reset_plan import write_plan
    from isthmus_cli.session import complain, run

    target = _target(to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by, from_file)
    if export and execute:
        raise typer.BadParameter("--export changes nothing; leave --execute out", param_hint="'--export'")
    if target.offsets is None and bool(topics) == all_topics:
        raise typer.BadParameter("give either --topic or --all-topics")

    async def work(client: Client) -> list[dict[str, Any]]:
        return await _reset(client, group, topics, target, execute=execute)

    rows = run(bootstrap, work)
    if export:
        from isthmus_client.metadata import TopicPartition

        plan = {TopicPartition(row["topic"], row["partition"]): row["new_offset"] for row in rows}
        typer.echo(write_plan(plan), nl=False)
        return
    show_rows(output, ("group", "topic", "partition", "old_offset", "new_offset"), rows)
    if not execute:
        complain("dry run; add --execute to set the offsets")


def _target(
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    from_file: Path | None,
) -> Target:
    from isthmus_client.clock import wall_ms

    from isthmus_cli.reset_plan import parse_datetime, parse_duration, read_plan

    given: list[Target] = []
    try:
        given += [Target("earliest")] if to_earliest else []
        given += [Target("latest")] if to_latest else []
        given += [Target("current")] if to_current else []
        given += [Target("offset", to_offset)] if to_offset is not None else []
        given += [Target("time", parse_datetime(to_datetime))] if to_datetime is not None else []
        if by_duration is not None:
            given.append(Target("time", wall_ms() - parse_duration(by_duration)))
        given += [Target("shift", shift_by)] if shift_by is not None else []
        if from_file is not None:
            given.append(Target("file", offsets=read_plan(from_file.read_text())))
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    if len(given) != 1:
        raise typer.BadParameter("give exactly one of --to-earliest, --to-latest, --to-offset, --to-datetime, ...")
    return given[0]


async def partitions_of(client: Client, words: Collection[str]) -> list[TopicPartition]:
    """The partitions of "topic" and "topic:0,1"; raises Refused for a topic that does not exist."""
    from isthmus_client.admin import topics
    from isthmus_client.metadata import TopicPartition

    from isthmus_cli.reset_plan import parse_scope

    try:
        scope = parse_scope(words)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--topic'") from error
    whole = [topic for topic, indexes in scope.items() if indexes is None]
    described_topics = await topics.describe(client, whole) if whole else {}
    return sorted(
        TopicPartition(topic, index)
        for topic, indexes in scope.items()
        for index in (described_topics[topic].partitions if indexes is None else indexes)
    )


async def _reset(
    client: Client, group: str, words: Collection[str], target: Target, *, execute: bool
) -> list[dict[str, Any]]:
    from isthmus_client.admin import group_offsets
    from isthmus_client.admin.group_offsets import Committed

    await _must_be_inactive(client, group)
    committed = await group_offsets.fetch(client, group)
    if target.offsets is not None:
        partitions = sorted(target.offsets)
    else:
        partitions = await partitions_of(client, words) if words else sorted(committed)
    plan = await _plan(client, partitions, committed, target)
    if execute and plan:
        outcomes = await group_offsets.commit(client, group, {tp: Committed(offset) for tp, offset in plan.items()})
        for error in outcomes.values():
            if error is not None:
                raise error
    return [
        {
            "group": group,
            "topic": tp.topic,
            "partition": tp.partition,
            "old_offset": committed[tp].offset if tp in committed else None,
            "new_offset": offset,
        }
        for tp, offset in plan.items()
    ]


async def _must_be_inactive(client: Client, group: str) -> None:
    from isthmus_client.admin.groups import describe
    from isthmus_client.errors import ClientError, Refused
    from isthmus_wire.errors import ErrorCode

    described = (await describe(client, [group]))[group]
    if isinstance(described, Refused) and described.code is ErrorCode.group_id_not_found:
        return  # created by its first offsets
    if isinstance(described, ClientError):
        raise described
    if described.state not in _INACTIVE:
        raise ClientError(f"group {group} is {described.state} with members; stop its consumers first")


async def _plan(
    client: Client, partitions: list[TopicPartition], committed: dict[TopicPartition, Committed], target: Target
) -> dict[TopicPartition, int]:
    """The new offset of each partition, clamped to what exists."""
    from isthmus_client.admin.list_offsets import At, list_offsets
    from isthmus_client.errors import ClientError
    from isthmus_client.requests_by_broker import results

    from isthmus_cli.reset_plan import clamped

    first = results(await list_offsets(client, dict.fromkeys(partitions, int(At.EARLIEST))))
    last = results(await list_offsets(client, dict.fromkeys(partitions, int(At.LATEST))))
    at_time = {}
    if target.way == "time":
        at_time = results(await list_offsets(client, dict.fromkeys(partitions, target.number)))
    plan = {}
    for tp in partitions:
        earliest, latest = first[tp].offset, last[tp].offset
        if target.way == "shift" and tp not in committed:
            raise ClientError(f"partition {tp} has no offset to shift; use --to-earliest or --to-latest for it")
        offset = at_time[tp].offset if tp in at_time else -1
        targets = {
            "earliest": earliest,
            "latest": latest,
            "current": committed[tp].offset if tp in committed else latest,
            "offset": target.number,
            "time": offset if offset >= 0 else latest,
            "shift": committed[tp].offset + target.number if tp in committed else 0,
            "file": (target.offsets or {}).get(tp, 0),
        }[target.way]
        plan[tp] = clamped(targets, earliest, latest)
    return plan
