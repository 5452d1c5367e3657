"""Options that many commands share, and what the shell completes for them."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from isthmus_model.addresses import Address

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_COMPLETION_SECONDS: Final = 2.0


class Output(StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"


BootstrapOption = Annotated[
    str,
    typer.Option(
        "-b", "--bootstrap", envvar="ISTHMUS_BOOTSTRAP", metavar="HOST:PORT,...", help="Brokers to begin with."
    ),
]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="table for people, json for programs.")]

YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Confirm beforehand: continue without the question.")]


def listen_address(text: str | None, option: str = "--http") -> "Address | None":
    """Parse a listen address."""
    from isthmus_model.addresses import parse_address

    try:
        return None if text is None else parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error


def complete_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of topics."""
    return _complete(ctx, incomplete, "topics")


def complete_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of groups."""
    return _complete(ctx, incomplete, "groups")


def complete_transactions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Transactional ids."""
    return _complete(ctx, incomplete, "transactions")


def _complete(ctx: typer.Context, incomplete: str, what: str) -> list[str]:
    from isthmus_client.errors import ClientError

    from isthmus_cli.names import names_of

    bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
    try:
        names = names_of(what, bootstrap, _COMPLETION_SECONDS)
    except (ClientError, ValueError, TimeoutError):
        return []  # completion has no place to show an error
    return [name for name in names if name.startswith(incomplete)]
