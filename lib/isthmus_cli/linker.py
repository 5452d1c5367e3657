"""`isthmus linker`: a worker that copies the mirror topics of a cluster's links."""

from typing import TYPE_CHECKING, Annotated

import typer

from isthmus_cli.options import DEFAULT_BOOTSTRAP, listen_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from isthmus_model.addresses import Address
    from isthmus_model.endpoints import Endpoint


DestinationOption = Annotated[
    str,
    typer.Option(
        "-b",
        "--bootstrap",
        envvar="ISTHMUS_BOOTSTRAP",
        metavar="HOST:PORT,...",
        help="Brokers of the destination, the cluster with the links.",
    ),
]
HttpOption = Annotated[
    str | None,
    typer.Option("--http", metavar="HOST:PORT", help="Serve /metrics and /health here; port 0 takes any."),
]


def linker(bootstrap: DestinationOption = DEFAULT_BOOTSTRAP, http: HttpOption = None) -> None:
    """Copy mirror topics of the destination's links until SIGTERM or Ctrl-C. Several workers share the work; none keeps state."""
    from isthmus_model.endpoints import parse_bootstrap
    from isthmus_service.logs import set_up_logs

    try:
        destination = parse_bootstrap(bootstrap)
        set_up_logs("linker")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    import uvloop

    raise typer.Exit(uvloop.run(_run(destination, listen_address(http))))


async def _run(destination: "Sequence[Endpoint]", http: "Address | None") -> int:
    from isthmus_linker.edge.main import run_linker

    from isthmus_cli.service_run import run_until_signal

    return await run_until_signal("linker", lambda stopping: run_linker(destination, http, stopping))
