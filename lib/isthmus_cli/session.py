"""Running one command against a cluster: errors become one line on standard error and status 1, never a traceback.

Statuses: 0 done, 1 the request failed, at least in part, 2 the command line is invalid.
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
    except BrokenPipeError as error:  # the reader of the output has closed it
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
    """Print an error and exit with status 1."""
    complain(message)
    raise typer.Exit(FAILED)


def confirm(effect: str, question: str, *, yes: bool) -> None:
    """Print what will be lost, and continue only if the user confirms it, at the prompt or beforehand with `yes`."""
    if yes:
        return
    print(f"{effect}\n{question} [y/N]: ", end="", file=sys.stderr, flush=True)
    try:
        response = input()
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        response = ""
    if response.strip().lower() not in ("y", "yes"):
        fail("nothing was changed; confirm with y, or with --yes")


def exit_for(outcomes: Mapping[str, Exception | None]) -> None:
    """Print what failed; exit with status 1 if anything did."""
    failures = [error for error in outcomes.values() if error is not None]
    for error in failures:
        complain(str(error))
    if failures:
        raise typer.Exit(FAILED)


def pairs(settings: list[str] | None, option: str) -> dict[str, str]:
    """A dictionary from KEY=VALUE words."""
    settings_by_key: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"expected KEY=VALUE, got '{setting}'", param_hint=f"'{option}'")
        settings_by_key[key] = value
    return settings_by_key
