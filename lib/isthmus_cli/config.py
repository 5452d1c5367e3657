"""`isthmus config`: describe, set and delete configs of topics, brokers, groups and client metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption

if TYPE_CHECKING:
    from isthmus_client.admin.configs import Change, Config, Resource
    from isthmus_client.client import Client

config_app = typer.Typer(help="Configs of topics, brokers and groups: describe, set, delete.", no_args_is_help=True)
BROKER_DEFAULTS: Final = "defaults"


class Kind(StrEnum):
    """The kind of a resource with configs."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKER_LOGGER = "broker-logger"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


KindArgument = Annotated[
    Kind, typer.Argument(metavar="KIND", help="topic, broker, group, broker-logger, client-metrics.")
]
NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help=f"The topic, broker id or group; broker {BROKER_DEFAULTS}: of all brokers."),
]


@config_app.command("describe")
def describe_command(
    kind: KindArgument,
    name: NameArgument,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include defaults.")] = False,
    documentation: Annotated[bool, typer.Option("--doc", help="What each config means.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the configs that were set, or all."""
    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    resource = _resource(kind, name)
    configs = run(bootstrap, lambda client: _describe(client, resource, documentation))
    rows = [_row(config) for config in configs if everything or config.is_set]
    columns = ("name", "value", "source", "read_only", *(("documentation",) if documentation else ()))
    show_rows(output, columns, rows)


async def _describe(client: Client, resource: Resource, documentation: bool) -> list[Config]:
    from isthmus_client.admin.configs import describe
    from isthmus_client.requests_by_broker import results

    return results(await describe(client, [resource], documentation=documentation))[resource]


def _row(config: Config) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": config.source.name.lower(),
        "read_only": config.read_only,
        "sensitive": config.sensitive,
        "documentation": config.documentation,
    }


@config_app.command("set")
def set_command(
    kind: KindArgument,
    name: NameArgument,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only let the cluster check it.")] = False,
) -> None:
    """Set configs; all of them or none."""
    from isthmus_client.admin.configs import Change, Operation

    from isthmus_cli.session import pairs

    changes = [Change(key, Operation.SET, value) for key, value in pairs(settings, "KEY=VALUE").items()]
    _alter(bootstrap, _resource(kind, name), changes, dry_run=dry_run)


@config_app.command("delete")
def delete_command(
    kind: KindArgument,
    name: NameArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only let the cluster check it.")] = False,
) -> None:
    """Reset configs to their defaults."""
    from isthmus_client.admin.configs import Change, Operation

    _alter(bootstrap, _resource(kind, name), [Change(key, Operation.DELETE) for key in keys], dry_run=dry_run)


def _alter(bootstrap: str, resource: Resource, changes: list[Change], *, dry_run: bool) -> None:
    from isthmus_client.admin.configs import alter

    from isthmus_cli.session import exit_for, run

    outcomes = run(bootstrap, lambda client: alter(client, {resource: changes}, validate_only=dry_run))
    exit_for({str(one): error for one, error in outcomes.items()})
    print(f"{resource}: {len(changes)} {'checked' if dry_run else 'changed'}")


def _resource(kind: Kind, name: str) -> Resource:
    from isthmus_client.admin.configs import Resource
    from isthmus_model.config_resources import ResourceType

    if kind is Kind.BROKER and name != BROKER_DEFAULTS and not name.isdigit():
        raise typer.BadParameter(f"expected a broker id or '{BROKER_DEFAULTS}', not '{name}'", param_hint="'NAME'")
    of_all = kind is Kind.BROKER and name == BROKER_DEFAULTS
    return Resource(ResourceType[kind.name], "" if of_all else name)
