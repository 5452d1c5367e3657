"""The `isthmus` command."""

import sys

import typer

from isthmus_cli.node import node
from isthmus_cli.storage import storage_app

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
app.command()(node)
app.add_typer(storage_app, name="storage")


def main() -> None:
    """The console script. The code's assertions guard data, so an interpreter that drops them is refused."""
    if not __debug__:
        sys.exit("isthmus: do not run with python -O: it removes the checks that protect your data")
    app()
