"""`isthmus link`: links from other clusters. A failover needs one broker of the destination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from isthmus_cli.link_mirror import mirror_app
from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption

if TYPE_CHECKING:
    from isthmus_wire.extensions.links import DescribedLink

link_app = typer.Typer(help="Links to other clusters, and the topics copied by them.", no_args_is_help=True)
link_app.add_typer(mirror_app, name="mirror")

NameArgument = Annotated[str, typer.Argument(metavar="LINK")]
ConfigOption = Annotated[list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="May be repeated.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only let the cluster check it.")]
_COLUMNS = ("link", "state", "source", "mirror_topics", "error", "id")


@link_app.command("create")
def create_command(
    name: NameArgument,
    source: Annotated[str, typer.Option("--source", metavar="HOST:PORT,...", help="Brokers of the source cluster.")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    source_cluster_id: Annotated[
        str | None, typer.Option(help="Required id of the source; by default it is looked up.")
    ] = None,
    config: ConfigOption = None,
    no_validate: Annotated[bool, typer.Option("--no-validate", help="Do not contact the source now.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Create a link to a source cluster."""
    from isthmus_client.admin.links import create_link

    from isthmus_cli.session import pairs, run

    configs = {**pairs(config, "--config"), "bootstrap.servers": source}
    run(
        bootstrap,
        lambda client: create_link(
            client,
            name,
            configs,
            source_cluster_id=source_cluster_id,
            validate_link=not no_validate,
            validate_only=dry_run,
        ),
    )
    print(f"link {name} {'can be created' if dry_run else 'created'}")


@link_app.command("list")
def list_command(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE) -> None:
    """List the links."""
    from isthmus_client.admin.links import describe_links

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    links = run(bootstrap, describe_links)
    rows = [{**_facts(link), "mirror_topics": len(link.mirror_topics)} for link in links]
    show_rows(output, _COLUMNS, rows)


@link_app.command("describe")
def describe_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="[LINK]...", help="By default all.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show links with their tasks, their mirror topics, and the settings in force."""
    from isthmus_client.admin.links import describe_links

    from isthmus_cli.output import show_json, show_table
    from isthmus_cli.session import run

    described = [_described(link) for link in run(bootstrap, lambda client: describe_links(client, names or None))]
    if output is Output.JSON:
        show_json(described)
        return
    for one in described:
        show_table((*_COLUMNS, "error_message"), [one])
        show_table(("task", "state", "error"), one["tasks"])
        show_table(("config", "value", "default"), one["configs"])


@link_app.command("alter")
def alter_command(
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    config: ConfigOption = None,
    delete_config: Annotated[
        list[str] | None, typer.Option("--delete-config", metavar="KEY", help="Back to the default.")
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change settings of a link, all or none."""
    from isthmus_client.admin.links import alter_link

    from isthmus_cli.session import pairs, run

    changes: dict[str, str | None] = {**pairs(config, "--config"), **dict.fromkeys(delete_config or ())}
    if not changes:
        raise typer.BadParameter("nothing to change; give --config or --delete-config")
    run(bootstrap, lambda client: alter_link(client, name, changes, validate_only=dry_run))
    print(f"link {name} {'can be altered' if dry_run else 'altered'}")


@link_app.command("delete")
def delete_command(
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    force: Annotated[bool, typer.Option("--force", help="Fail over its active mirror topics.")] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete a link. Its stopped topics remain."""
    from isthmus_client.admin.links import delete_link

    from isthmus_cli.session import run

    run(bootstrap, lambda client: delete_link(client, name, force=force, validate_only=dry_run))
    print(f"link {name} {'can be deleted' if dry_run else 'deleted'}")


def _facts(link: DescribedLink) -> dict[str, Any]:
    from isthmus_model.uuid_text import uuid_text

    return {
        "link": link.name,
        "state": link.state,
        "source": link.source_cluster_id or None,
        "error": link.link_error,
        "error_message": link.link_error_message or None,
        "id": None if link.link_id is None else uuid_text(link.link_id),
    }


def _described(link: DescribedLink) -> dict[str, Any]:
    return {
        **_facts(link),
        "mirror_topics": list(link.mirror_topics),
        "tasks": [
            {"task": task.name, "state": task.state, "error": task.error, "error_message": task.error_message or None}
            for task in link.tasks
        ],
        "configs": [{"config": c.name, "value": c.value, "default": c.is_default} for c in link.configs],
    }
