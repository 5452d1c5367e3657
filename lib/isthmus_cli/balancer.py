"""`isthmus balancer`: the process that watches a cluster and balances its load according to --mode."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from isthmus_balancer.core.mode import Mode

from isthmus_cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, listen_address
from isthmus_cli.session import fail

if TYPE_CHECKING:
    from isthmus_balancer.edge.service import Balancer
    from isthmus_model.addresses import Address


def balancer(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve /metrics and /health here.")
    ] = None,
    mode: Annotated[
        Mode, typer.Option("--mode", envvar="ISTHMUS_BALANCE", help="When to move partitions automatically.")
    ] = Mode.OFF,
    interval: Annotated[float, typer.Option("--interval", min=1, help="Seconds between two looks.")] = 60.0,
    throttle: Annotated[
        int, typer.Option("--throttle", min=0, help="Bytes per second per broker; 0 disables the throttle.")
    ] = 10_000_000,
) -> None:
    """Watch a cluster until SIGTERM or Ctrl-C. Of several instances one is active; the others are standby."""
    from isthmus_balancer.core.cluster import Limits
    from isthmus_balancer.core.schedule import Pace
    from isthmus_balancer.edge.service import Balancer
    from isthmus_model.endpoints import parse_bootstrap
    from isthmus_service.logs import set_up_logs

    try:
        addresses = parse_bootstrap(bootstrap)
        set_up_logs("balancer")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    made = Balancer(addresses, mode, interval, Pace(bytes_per_second=throttle), Limits())
    try:
        asyncio.run(_run(made, listen_address(http)))
    except OSError as error:
        fail(f"balancer: {error}")


async def _run(balancer: Balancer, listen: Address | None) -> None:
    from isthmus_service.http import observed

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        ready_line = "ready"
        if listen is not None:
            port = await stack.enter_async_context(observed(listen, balancer.registry, balancer.not_ready))
            ready_line = f"ready http://{listen[0]}:{port}"
        work = asyncio.create_task(balancer.run())
        print(ready_line, flush=True)
        await stopping.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
