"""`isthmus storage`: the identity of log directories."""

from pathlib import Path
from typing import Annotated, Any

import typer

from isthmus_cli.node import ConfigOption, SettingsOption

storage_app = typer.Typer(help="Format log directories and look at their identity.", no_args_is_help=True)
_OPERATING_ERROR = 1


@storage_app.command("format")
def format_storage(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", "-t", help="The cluster's id; random by default.")
    ] = None,
    ignore_formatted: Annotated[bool, typer.Option(help="Accept formatted directories.")] = False,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This controller is the first and only voter.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option("--initial-controllers", "-I", metavar="ID@HOST:PORT:DIRECTORY-ID,...", help="The first voters."),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="This controller joins a quorum later.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Write meta.properties into every log directory of a node, and the first voters of a dynamic quorum."""
    from isthmus_broker.core.config.values import ConfigRefused
    from isthmus_broker.edge.assembly.format import (
        directories_of,
        format_directories,
        metadata_directory,
        random_uuid,
        write_first_voters,
    )
    from isthmus_broker.edge.storage.filesystem import SYSTEM
    from isthmus_broker.edge.storage.log_dir import Inconsistent, read_meta

    from isthmus_cli.first_voters import first_voters

    resolved = _resolved(config, settings)
    directories, metadata = directories_of(resolved), metadata_directory(resolved)
    try:
        formatted_before = [path for path in directories if _is_formatted(path)]
        if formatted_before and not ignore_formatted:
            raise Inconsistent(
                f"{formatted_before[0]} is formatted already; use --ignore-formatted to format the others."
            )
        own = read_meta(SYSTEM, metadata).directory_id if metadata in formatted_before else random_uuid()
        voters = first_voters(resolved, own, initial_controllers, standalone=standalone, none=no_initial_controllers)
        mine = None if voters is None else voters.find(resolved.node_id)
        if mine is not None and mine.key.directory_id is not None and metadata not in formatted_before:
            own = mine.key.directory_id
        done = format_directories(SYSTEM, directories, resolved.node_id, cluster_id, {metadata: own})
        if voters is not None and metadata in done.written:
            write_first_voters(SYSTEM, resolved, voters)
    except (ConfigRefused, Inconsistent) as problem:
        typer.echo(f"isthmus storage format: {problem}", err=True)
        raise typer.Exit(_OPERATING_ERROR) from problem
    _show(
        output,
        {
            "cluster_id": done.cluster_id,
            "formatted": [str(p) for p in done.written],
            "already": [str(p) for p in done.already],
        },
    )


@storage_app.command("info")
def info(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Show the identity of a node's log directories."""
    from isthmus_broker.edge.assembly.format import directories_of
    from isthmus_broker.edge.storage.filesystem import SYSTEM
    from isthmus_broker.edge.storage.log_dir import Inconsistent, NotFormatted, read_meta
    from isthmus_model.uuid_text import uuid_text

    problems = 0
    for path in directories_of(_resolved(config, settings)):
        try:
            meta = read_meta(SYSTEM, path)
        except (NotFormatted, Inconsistent) as problem:
            problems += 1
            typer.echo(f"isthmus storage info: {problem}", err=True)
            continue
        _show(
            output,
            {
                "directory": str(path),
                "cluster_id": meta.cluster_id,
                "node_id": meta.node_id,
                "directory_id": uuid_text(meta.directory_id),
            },
        )
    if problems:
        raise typer.Exit(_OPERATING_ERROR)


@storage_app.command("random-uuid")
def random_uuid() -> None:
    """Print a new random cluster id."""
    from isthmus_broker.edge.assembly.format import new_cluster_id

    typer.echo(new_cluster_id())


def _resolved(config: Path | None, settings: list[str] | None) -> Any:
    from isthmus_broker.core.config.node_config import resolve_node
    from isthmus_broker.core.config.values import ConfigRefused

    from isthmus_cli.settings import node_layers

    try:
        return resolve_node(node_layers(config, settings or []))
    except ConfigRefused as refusal:
        typer.echo(f"isthmus storage: {refusal}", err=True)
        raise typer.Exit(_OPERATING_ERROR) from refusal


def _is_formatted(path: Path) -> bool:
    from isthmus_broker.edge.storage.filesystem import SYSTEM
    from isthmus_broker.edge.storage.log_dir import NotFormatted, read_meta

    try:
        read_meta(SYSTEM, path)
    except NotFormatted:
        return False
    return True


def _show(output: str, facts: dict[str, Any]) -> None:
    if output == "json":
        import json

        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' ')}: {', '.join(value) if isinstance(value, list) else value}")
