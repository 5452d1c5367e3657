"""`isthmus up`, `status`, `kill`, `pause`, `resume`, `down`: whole topologies on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from isthmus_cli.session import fail

if TYPE_CHECKING:
    from isthmus_topology.processes import Site

DEFAULT_DIRECTORY: Final = Path(".isthmus")
DirectoryOption = Annotated[
    Path,
    typer.Option("--dir", envvar="ISTHMUS_TOPOLOGY_DIR", help="Where the topology keeps its state, logs and data."),
]
NodeArgument = Annotated[str, typer.Argument(help="The node, as `isthmus status` names it.")]


def up(
    file: Annotated[
        Path | None, typer.Argument(help="A topology as TOML; without it the built-in one of three regions.")
    ] = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    show: Annotated[
        bool, typer.Option("--print", help="Print the built-in topology, to begin a file with, and end.")
    ] = False,
) -> None:
    """Start a topology, or what of it does not run, each node as a process."""
    from isthmus_topology.bring_up import bring_up, steps
    from isthmus_topology.description import TopologyRefused

    if show:
        print(_built_in(), end="")
        return
    try:
        site = _site_to_start(file, directory)
        with _steps(steps(site)) as report:
            bring_up(site, report)
    except (TopologyRefused, OSError) as refusal:
        fail(str(refusal))
    for cluster in site.topology.clusters:
        print(f"cluster {cluster.name} is up")
        for region in site.topology.regions:
            print(f"  in {region}: {site.plan.bootstrap(cluster.name, region)}")


def _built_in() -> str:
    from importlib.resources import files

    return (files("isthmus_topology") / "default.toml").read_text()


def _site_to_start(file: Path | None, directory: Path) -> Site:
    from isthmus_topology.description import TopologyRefused
    from isthmus_topology.processes import STATE_FILE, new_site, open_site

    text = _built_in() if file is None else file.read_text()
    site = new_site(directory, text)
    if not (directory / STATE_FILE).exists():
        return site
    before = open_site(directory)
    if before.text != text and (before.is_up() or file is not None):
        raise TopologyRefused(
            f"{directory} holds another topology; `isthmus down --purge` removes it, or choose another --dir"
        )
    return before


@contextmanager
def _steps(total: int) -> Iterator[Callable[[str], None]]:
    """A line of progress on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda done: bar.update(task, advance=1, description=f"{done} is ready")


def down(
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    purge: Annotated[bool, typer.Option("--purge", help="Remove data and logs as well.")] = False,
) -> None:
    """Stop a topology; its data stays."""
    from isthmus_topology.bring_up import bring_down

    bring_down(opened(directory), purge=purge)


def kill(node: NodeArgument, directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """End a node at once, with SIGKILL, as a crash does."""
    _signal(directory, node, "SIGKILL")


def pause(node: NodeArgument, directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Stop a node where it is, with SIGSTOP, as a stalled machine does."""
    _signal(directory, node, "SIGSTOP")


def resume(node: NodeArgument, directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Let a paused node go on, or start a dead one again."""
    from isthmus_topology.bring_up import READY_SECONDS
    from isthmus_topology.description import TopologyRefused
    from isthmus_topology.processes import await_ready, start_node

    site = opened(directory)
    try:
        plan = site.node(node)
        if site.state_of(node) != "dead":
            _signal(directory, node, "SIGCONT")
            return
        start_node(site, plan)
        await_ready(site, [node], READY_SECONDS, lambda _: None)
    except TopologyRefused as refusal:
        fail(str(refusal))


def _signal(directory: Path, node: str, name: str) -> None:
    from signal import Signals

    from isthmus_topology.description import TopologyRefused

    site = opened(directory)
    try:
        site.node(node)
    except TopologyRefused as refusal:
        fail(str(refusal))
    if site.state_of(node) == "dead":
        fail(f"{node} does not run; `isthmus resume {node}` starts it")
    site.processes[node].signal(Signals[name])


def opened(directory: Path) -> Site:
    """The topology of a directory, or an error for the user."""
    from isthmus_topology.description import TopologyRefused
    from isthmus_topology.processes import open_site

    try:
        return open_site(directory)
    except TopologyRefused as refusal:
        fail(str(refusal))
