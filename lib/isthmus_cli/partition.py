"""`isthmus partition`: elections and reassignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, complete_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from isthmus_client.client import Client
    from isthmus_client.errors import Refused
    from isthmus_client.metadata import TopicPartition

partition_app = typer.Typer(help="Partitions: elect leaders, move replicas.", no_args_is_help=True)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topics)]
PartitionsOption = Annotated[
    list[int] | None, typer.Option("-p", "--partition", help="Only this one; may be repeated. By default all.")
]


@partition_app.command("elect")
def elect_command(
    topic: TopicArgument,
    partitions: PartitionsOption = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Elect any live replica where there is no leader; records that it does not have are lost."
        ),
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Elect the preferred leaders, or with --unclean any live replica where there is no leader."""
    from isthmus_cli.session import exit_for, run

    outcomes = run(bootstrap, lambda client: _elect(client, topic, partitions, unclean=unclean))
    for partition, refused in outcomes.items():
        if refused is None:
            print(f"partition {partition}: leader elected")
    exit_for(_failures(outcomes))


async def _elect(
    client: Client, topic: str, partitions: list[int] | None, *, unclean: bool
) -> Mapping[TopicPartition, Refused | None]:
    from isthmus_client.admin.partitions import elect
    from isthmus_wire.errors import ErrorCode

    outcomes = await elect(client, await _named(client, topic, partitions), unclean=unclean)
    needless = ErrorCode.election_not_needed
    return {p: refused for p, refused in outcomes.items() if refused is None or refused.code is not needless}


@partition_app.command("move")
def move_command(
    topic: TopicArgument,
    replicas: Annotated[str, typer.Option("--to", metavar="1:2:3", help="The brokers, the preferred leader first.")],
    partitions: PartitionsOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Start reassigning partitions to these brokers; `isthmus partition moves` shows the progress."""
    try:
        target = [int(broker) for broker in replicas.split(":")]
    except ValueError as error:
        raise typer.BadParameter(f"expected broker ids such as 1:2:3, got '{replicas}'", param_hint="'--to'") from error
    _reassign(topic, partitions, target, bootstrap, "is on its way")


@partition_app.command("cancel")
def cancel_command(
    topic: TopicArgument, partitions: PartitionsOption = None, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """Cancel reassignments in progress."""
    _reassign(topic, partitions, None, bootstrap, "stays")


@partition_app.command("moves")
def moves_command(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, output: OutputOption = Output.TABLE) -> None:
    """Show reassignments in progress."""
    from isthmus_client.admin.partitions import moves

    from isthmus_cli.output import show_rows
    from isthmus_cli.session import run

    rows = [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": move.replicas,
            "adding": move.adding,
            "removing": move.removing,
        }
        for move in run(bootstrap, moves)
    ]
    show_rows(output, ("topic", "partition", "replicas", "adding", "removing"), rows)


def _reassign(topic: str, partitions: list[int] | None, target: list[int] | None, bootstrap: str, outcome: str) -> None:
    from isthmus_client.admin.partitions import reassign

    from isthmus_cli.session import exit_for, run

    async def request_moves(client: Client) -> Mapping[TopicPartition, Refused | None]:
        return await reassign(client, dict.fromkeys(await _named(client, topic, partitions), target))

    outcomes = run(bootstrap, request_moves)
    for partition, refused in outcomes.items():
        if refused is None:
            print(f"partition {partition} {outcome}")
    exit_for(_failures(outcomes))


async def _named(client: Client, topic: str, partitions: list[int] | None) -> list[TopicPartition]:
    from isthmus_client.admin.topics import describe
    from isthmus_client.metadata import TopicPartition

    indexes = partitions or sorted((await describe(client, [topic]))[topic].partitions)
    return [TopicPartition(topic, index) for index in indexes]


def _failures(outcomes: Mapping[TopicPartition, Refused | None]) -> dict[str, Exception | None]:
    return {str(partition): refused for partition, refused in outcomes.items()}
