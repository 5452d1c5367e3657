"""Printing: tables for people, JSON for programs.

JSON is one document, or one per line for streams. Its keys are the tables' columns and do not change. A table that does not go to a
terminal is as wide as its contents: nothing is truncated.
"""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from isthmus_cli.options import Output

if TYPE_CHECKING:
    from rich.table import Table

Row = dict[str, Any]
_UNBOUNDED_WIDTH: Final = 100_000


def show_rows(output: Output, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print rows as a table with these columns; JSON has all keys."""
    if output is Output.JSON:
        show_json(rows)
    else:
        show_table(columns, rows)


def show_json(document: Any) -> None:
    """Print one document; indented on a terminal."""
    print(json.dumps(document, indent=2 if sys.stdout.isatty() else None))


def show_table(columns: Sequence[str], rows: Sequence[Row], title: str | None = None) -> None:
    """Aligned columns under their names."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    Console(highlight=False, width=None if terminal else _UNBOUNDED_WIDTH).print(table(columns, rows, title))


def table(columns: Sequence[str], rows: Sequence[Row], title: str | None = None) -> "Table":
    """The table, for a live display."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for column in columns:
        numeric = bool(rows) and all(isinstance(row.get(column), int | None) for row in rows)
        made.add_column(
            column.replace("_", " ").upper(), overflow="fold", justify="right" if numeric else "left", no_wrap=numeric
        )
    for row in rows:
        made.add_row(*(Text(_cell(row.get(column))) for column in columns))
    return made


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
