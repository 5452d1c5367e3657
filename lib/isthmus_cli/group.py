"""`isthmus group`: list, describe with members and lag, delete, delete offsets; `reset-offsets` is in a module of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.group_reset import ScopeOption, reset_command
from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_groups

if TYPE_CHECKING:
    from isthmus_client.admin.group_offsets import Committed
    from isthmus_client.admin.groups import Group
    from isthmus_client.client import Client
    from isthmus_client.metadata import TopicPartition

group_app = typer.Typer(help="Groups: list, describe, reset offsets, delete.", no_args_is_help=True)
group_app.command("reset-offsets")(reset_command)

GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP...", autocompletion=complete_groups)]
_MEMBER_COLUMNS: Final = ("group", "member", "instance", "client", "host", "partitions")
_OFFSET_COLUMNS: Final = ("group", "topic", "partition", "committed", "end", "lag", "member")


@group_app.command("list")
def list_command(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    state: Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only of this type; may be repeated.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the groups."""
    from isthmus_client.admin.groups import list_groups

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    groups = run(bootstrap, lambda client: list_groups(client, state or (), kind or ()))
    rows = [
        {"group": group.group_id, "type": group.type, "state": group.state, "protocol": group.protocol_type}
        for group in groups
    ]
    show_rows(output, ("group", "type", "state", "protocol"), rows)


@group_app.command("describe")
def describe_command(
    groups: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE
) -> None:
    """Show the members of groups and the lag of each partition."""
    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    described = run(bootstrap, lambda client: _described(client, groups))
    if output is Output.JSON:
        show_json(described)
        return
    for one in described:
        print(
            f"group {one['group']}  type {one['type']}  state {one['state']}  assignor {one['assignor'] or '-'}"
            f"  coordinator {one['coordinator']}  lag {one['lag']}"
        )
    members = [{"group": one["group"], **member} for one in described for member in one["members"]]
    offsets = [{"group": one["group"], **offset} for one in described for offset in one["offsets"]]
    if members:
        show_table(_MEMBER_COLUMNS, members)
    if offsets:
        show_table(_OFFSET_COLUMNS, offsets)


async def _described(client: Client, group_ids: list[str]) -> list[dict[str, Any]]:
    from isthmus_client.admin import group_offsets
    from isthmus_client.admin.groups import describe
    from isthmus_client.errors import Refused
    from isthmus_client.requests_by_broker import results

    groups = results(await describe(client, group_ids))
    coordinators = await client.coordinators(group_ids)
    described = []
    for group in groups.values():
        coordinator = coordinators[group.group_id]
        committed = await group_offsets.fetch(client, group.group_id)
        offsets = await _offsets(client, group, committed)
        described.append(
            {
                "group": group.group_id,
                "type": group.type,
                "state": group.state,
                "protocol": group.protocol_type,
                "assignor": group.assignor,
                "coordinator": None if isinstance(coordinator, Refused) else coordinator.node_id,
                "members": [_member(member) for member in group.members],
                "offsets": offsets,
                "lag": sum(offset["lag"] or 0 for offset in offsets),
            }
        )
    return described


def _member(member: Any) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "epoch": member.epoch,
        "topics": list(member.topics),
        "partitions": [str(partition) for partition in member.partitions],
    }


async def _offsets(client: Client, group: Group, committed: dict[TopicPartition, Committed]) -> list[dict[str, Any]]:
    """Every partition that is assigned or has an offset; the lag of a deleted partition is unknown."""
    from isthmus_client.admin.list_offsets import At, ListedOffset, list_offsets

    owners = {partition: member.member_id for member in group.members for partition in member.partitions}
    partitions = sorted({*owners, *committed})
    ends = await list_offsets(client, dict.fromkeys(partitions, int(At.LATEST)))
    rows = []
    for partition in partitions:
        listed = ends[partition]
        end = listed.offset if isinstance(listed, ListedOffset) else None
        offset = committed[partition].offset if partition in committed else None
        known = end is not None and offset is not None
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": offset,
                "end": end,
                "lag": max(0, (end or 0) - (offset or 0)) if known else None,
                "member": owners.get(partition),
            }
        )
    return rows


@group_app.command("delete")
def delete_command(groups: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Delete groups without members, and their offsets."""
    from isthmus_client.admin.groups import delete

    from isthmus_cli.session import exit_for, run

    outcomes = run(bootstrap, lambda client: delete(client, groups))
    for name, error in outcomes.items():
        if error is None:
            print(f"group {name} deleted")
    exit_for(dict(outcomes))


@group_app.command("delete-offsets")
def delete_offsets_command(
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_groups)],
    topics: ScopeOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete a group's offsets of topics that it is not subscribed to."""
    from isthmus_client.admin import group_offsets

    from isthmus_cli.group_reset import partitions_of
    from isthmus_cli.session import exit_for, run

    async def work(client: Client) -> dict[TopicPartition, Any]:
        return dict(await group_offsets.delete(client, group, await partitions_of(client, topics)))

    outcomes = run(bootstrap, work)
    for partition, error in outcomes.items():
        if error is None:
            print(f"offset of group {group} for partition {partition} deleted")
    exit_for({str(partition): error for partition, error in outcomes.items()})
