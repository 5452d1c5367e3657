"""A progress bar on standard error, on terminals only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives progress."""

    def __call__(self, records: int, size: int) -> None: ...


@contextmanager
def progress(what: str, total: int | None, *, watched: bool) -> Iterator[Progress]:
    """A function to call with the records and bytes since the last call; `total` records, if known."""
    if not (watched and sys.stderr.isatty()):
        yield lambda records, size: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[amount]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, amount="", rate="")
        done = 0

        def advance(records: int, size: int) -> None:
            nonlocal done
            done += size
            seconds = bar.tasks[0].elapsed or 0.0
            rate = f"{decimal(int(done / seconds))}/s" if seconds else ""
            bar.update(task, advance=records, amount=decimal(done), rate=rate)

        yield advance
