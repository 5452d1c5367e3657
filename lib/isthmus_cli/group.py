"""`isthmus group`: list, delete, delete offsets; `describe` and `reset-offsets` are in modules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from isthmus_cli.group_describe import GroupsArgument, describe_command
from isthmus_cli.group_reset import ScopeOption, reset_command
from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_groups

if TYPE_CHECKING:
    from isthmus_client.client import Client
    from isthmus_client.metadata import TopicPartition

group_app = typer.Typer(help="Groups: list, describe, reset offsets, delete.", no_args_is_help=True)
group_app.command("describe")(describe_command)
group_app.command("reset-offsets")(reset_command)


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
