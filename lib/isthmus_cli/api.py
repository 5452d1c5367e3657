"""`isthmus api`: run the control plane in the foreground."""

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from isthmus_cli.session import fail

if TYPE_CHECKING:
    from isthmus_api.process import Settings

DEFAULT_LISTEN: Final = "127.0.0.1:8080"


def api(
    listen: Annotated[
        str,
        typer.Option(
            envvar="ISTHMUS_API_LISTEN", metavar="HOST:PORT", help="Listen address; port 0 takes any free port."
        ),
    ] = DEFAULT_LISTEN,
    store: Annotated[
        str | None,
        typer.Option(
            envvar="ISTHMUS_API_STORE",
            metavar="URL",
            help="sqlite:///FILE or postgresql://USER@HOST/NAME; by default a file in the data directory.",
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(envvar="ISTHMUS_API_DATA_DIR", help="Directory of the admin key and the default store.")
    ] = Path(".isthmus"),
    console: Annotated[
        Path | None,
        typer.Option(
            envvar="ISTHMUS_API_CONSOLE", help="Directory of the console's built files, if not the packaged ones."
        ),
    ] = None,
) -> None:
    """Run the control plane until SIGTERM or Ctrl-C. The first start creates the admin key and prints it once."""
    from isthmus_model.addresses import parse_address
    from isthmus_service.logs import set_up_logs

    try:
        set_up_logs("api")
        address = parse_address(listen)
    except ValueError as error:
        fail(f"--listen: {error}")
    import uvloop
    from isthmus_api.process import Settings

    uvloop.run(_serve(Settings(address, data_dir, store, console)))


async def _serve(settings: "Settings") -> None:
    from isthmus_api.process import running
    from isthmus_api.security.admin_key import FILE
    from isthmus_api.store.database import StoreRefused
    from sqlalchemy.exc import SQLAlchemyError

    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        async with running(settings) as serving:
            if serving.made_key is not None:
                print(f"admin key {serving.made_key} (kept in {settings.directory / FILE})")
            host, port = serving.address
            print(f"ready http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)
            await stopping.wait()
    except (StoreRefused, SQLAlchemyError, OSError) as problem:
        fail(str(problem).split(os.linesep)[0])
