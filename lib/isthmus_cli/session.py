"""Running one command against a cluster: errors become one line on standard error and status 1, never a traceback.

Statuses: 0 done, 1 the cluster could not or would not (or did so for a part only), 2 the command line makes no sense.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from isthmus_client.client import Client

T = TypeVar("T")
FAILED: Final = 1
_INTERRUPTED: Final = 130


def run(bootstrap: str, work: "Callable[[Client], Awaitable[T]]") -> T:
    """Connect, do the work, and return what it returns."""
    from isthmus_client.client import Client
    from isthmus_client.errors import ClientError
    from isthmus_model.endpoints import parse_bootstrap
    from isthmus_wire.errors import WireError

    try:
        addresses = parse_bootstrap(bootstrap)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--bootstrap'") from error

    async def connected() -> T:
        async with Client(addresses, client_id="isthmus-cli") as client:
            return await work(client)

    try:
        return asyncio.run(connected())
    except BrokenPipeError as error:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from error
    except (ClientError, WireError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt as error:
        raise typer.Exit(_INTERRUPTED) from error


def complain(message: str) -> None:
    """One line on standard error."""
    print(f"isthmus: {message}", file=sys.stderr)


def fail(message: str) -> NoReturn:
    """Complain and end with status 1."""
    complain(message)
    raise typer.Exit(FAILED)


def exit_for(answers: Mapping[str, Exception | None]) -> None:
    """Say what failed; status 1 if anything did."""
    failures = [error for error in answers.values() if error is not None]
    for error in failures:
        complain(str(error))
    if failures:
        raise typer.Exit(FAILED)


def pairs(settings: list[str] | None, option: str) -> dict[str, str]:
    """A dictionary from KEY=VALUE words."""
    found: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"wants KEY=VALUE, not '{setting}'", param_hint=f"'{option}'")
        found[key] = value
    return found
