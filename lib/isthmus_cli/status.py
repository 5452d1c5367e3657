"""`isthmus status`: the state of a topology on this machine, once or live."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from isthmus_cli.options import Output, OutputOption
from isthmus_cli.session import complain
from isthmus_cli.topology import DEFAULT_DIRECTORY, DirectoryOption, opened

if TYPE_CHECKING:
    from isthmus_topology.overview import Overview
    from rich.console import Group

_REFRESH_SECONDS: Final = 1.0
_NODES: Final = ("node", "id", "rack", "roles", "state", "pid", "mb", "leads", "in_sync", "observes")
_SERVICES: Final = ("service", "kind", "region", "state", "pid", "mb", "http")
_REGIONS: Final = (
    *("cluster", "region", "leaders", "replicas", "in_sync", "observers"),
    *("lag", "lag_ms", "bootstrap"),
)
_LINKS: Final = ("from", "to", "cut", "latency_ms", "jitter_ms", "loss", "bandwidth_mbit", "connections", "carried")


def status(
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep the tables up to date until Ctrl-C.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the nodes and services of a topology, the lag of each region, and the links."""
    from isthmus_topology.overview import observe

    from isthmus_cli.output import show_json, show_table

    if watch:
        _watch(directory)
        return
    overview = observe(opened(directory))
    if output is Output.JSON:
        show_json(asdict(overview))
        return
    for columns, rows in _tables(overview):
        show_table(columns, rows)
        print()
    for trouble in overview.troubles:
        complain(trouble)


def _tables(overview: Overview) -> Iterator[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    """The tables with rows."""
    for columns, rows in (
        (_NODES, overview.nodes),
        (_SERVICES, overview.services),
        (_REGIONS, overview.regions),
        (_LINKS, overview.links),
    ):
        if rows:
            yield columns, rows


def _watch(directory: DirectoryOption) -> None:
    from isthmus_topology.overview import observe
    from rich.live import Live

    try:
        with Live(_drawn(observe(opened(directory))), screen=True) as live:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(_drawn(observe(opened(directory))))
    except KeyboardInterrupt:
        pass


def _drawn(overview: Overview) -> Group:
    from rich.console import Group
    from rich.text import Text

    from isthmus_cli.output import table

    parts = [table(columns, rows) for columns, rows in _tables(overview)]
    return Group(*parts, *(Text(trouble, style="bold red") for trouble in overview.troubles))
