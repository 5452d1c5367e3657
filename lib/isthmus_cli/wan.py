"""`isthmus wan`: the distance between the regions of a topology."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from isthmus_cli.options import Output, OutputOption
from isthmus_cli.session import fail
from isthmus_cli.topology import DEFAULT_DIRECTORY, DirectoryOption, opened

wan_app = typer.Typer(help="The network between regions: show, change, cut and heal it.", no_args_is_help=True)
FromArgument = Annotated[str, typer.Argument(metavar="REGION", help="A region.")]
ToArgument = Annotated[str, typer.Argument(metavar="REGION", help="Another region.")]
OneWayOption = Annotated[bool, typer.Option("--one-way", help="Only from the first region to the second.")]
_COLUMNS = ("from", "to", "cut", "latency_ms", "jitter_ms", "loss", "bandwidth_mbit", "connections", "carried")


@wan_app.command("show")
def show_command(directory: DirectoryOption = DEFAULT_DIRECTORY, output: OutputOption = Output.TABLE) -> None:
    """Show every direction: latency, jitter, loss, bandwidth, cuts, and bytes carried."""
    from isthmus_cli.output import show_rows

    show_rows(output, _COLUMNS, _ask(directory, {"op": "state"}))


@wan_app.command("cut")
def cut_command(
    near: FromArgument,
    far: ToArgument,
    one_way: OneWayOption = False,
    reset: Annotated[bool, typer.Option("--reset", help="Also reset open connections.")] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Partition two regions: traffic is dropped without notice, and connections stay open."""
    _ask(directory, {"op": "cut", "from": near, "to": far, "one_way": one_way, "reset": reset})


@wan_app.command("heal")
def heal_command(
    near: Annotated[
        str | None, typer.Argument(metavar="REGION", help="A region; without one, all cuts are healed.")
    ] = None,
    far: Annotated[str | None, typer.Argument(metavar="REGION", help="Another region.")] = None,
    one_way: OneWayOption = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Remove partitions between regions."""
    if (near is None) != (far is None):
        raise typer.BadParameter("name two regions, or none for all cuts")
    named = {} if near is None else {"from": near, "to": far, "one_way": one_way}
    _ask(directory, {"op": "heal", **named})


@wan_app.command("set")
def set_command(
    near: FromArgument,
    far: ToArgument,
    latency: Annotated[float | None, typer.Option("--latency", help="Milliseconds, one way.")] = None,
    jitter: Annotated[float | None, typer.Option("--jitter", help="Milliseconds more or less.")] = None,
    loss: Annotated[float | None, typer.Option("--loss", help="Share of segments lost, such as 0.01.")] = None,
    bandwidth: Annotated[float | None, typer.Option("--bandwidth", help="Megabits per second; 0 for no limit.")] = None,
    one_way: OneWayOption = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Change latency, jitter, loss or bandwidth between two regions."""
    given = {"latency_ms": latency, "jitter_ms": jitter, "loss": loss, "bandwidth_mbit": bandwidth}
    weather = {key: value for key, value in given.items() if value is not None}
    if not weather:
        raise typer.BadParameter("say what to change: --latency, --jitter, --loss or --bandwidth")
    _ask(directory, {"op": "set", "from": near, "to": far, "one_way": one_way, "weather": weather})


@wan_app.command("serve", hidden=True)
def serve_command(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Run the emulator of a topology's distances; started by `isthmus up`."""
    import uvloop
    from isthmus_topology.wan.server import serve

    site = opened(directory)
    site.control.unlink(missing_ok=True)
    try:
        uvloop.run(serve(site.topology, site.plan.relays, site.control))
    except OSError as error:
        fail(f"cannot relay: {error}; is another topology up on these ports?")


def _ask(directory: DirectoryOption, request: dict[str, Any]) -> list[dict[str, Any]]:
    from isthmus_topology.reading import TopologyRefused
    from isthmus_topology.wan.control import send_request

    try:
        return send_request(opened(directory).control, request)
    except TopologyRefused as refusal:
        fail(str(refusal))
