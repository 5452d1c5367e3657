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
    typer.Option("--dir", envvar="ISTHMUS_TOPOLOGY_DIR", help="Directory of the topology's state, logs and data."),
]
NodeArgument = Annotated[str, typer.Argument(help="The node or the service, as `isthmus status` names it.")]
BUILT_IN: Final = ("platform", "stretched")


def up(
    file: Annotated[
        Path, typer.Argument(help="A topology as TOML, or one that is built in: platform (everything) or stretched.")
    ] = Path(BUILT_IN[0]),
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    show: Annotated[bool, typer.Option("--print", help="Print the topology as TOML and exit.")] = False,
) -> None:
    """Start a topology, or its stopped parts, each as a process."""
    from isthmus_topology.bring_up import bring_up, steps
    from isthmus_topology.reading import TopologyRefused

    if show:
        print(_text_of(file), end="")
        return
    try:
        site = _site_to_start(file, directory)
        with _steps(steps(site)) as report:
            bring_up(site, report)
    except (TopologyRefused, OSError) as refusal:
        fail(str(refusal))
    _tell(site)


def _tell(site: Site) -> None:
    from isthmus_topology.wiring import ControlPlane

    for cluster in site.topology.clusters:
        print(f"cluster {cluster.name} is up")
        for region in site.topology.regions:
            print(f"  in {region}: {site.plan.bootstrap(cluster.name, region)}")
    if site.topology.services.control_plane is not None:
        plane = ControlPlane(site)
        print(f"console {plane.address}, user admin, key {plane.key} (also in {plane.key_file})")


def _text_of(file: Path) -> str:
    """The file's text, or the built-in topology of that name."""
    from importlib.resources import files

    if str(file) in BUILT_IN and not file.exists():
        return (files("isthmus_topology") / "built_in" / f"{file}.toml").read_text()
    return file.read_text()


def _site_to_start(file: Path, directory: Path) -> Site:
    from isthmus_topology.processes import STATE_FILE, new_site, open_site
    from isthmus_topology.reading import TopologyRefused

    text = _text_of(file)
    site = new_site(directory, text)
    if not (directory / STATE_FILE).exists():
        return site
    before = open_site(directory)
    if before.text != text and (before.is_up() or file != Path(BUILT_IN[0])):
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
    """Stop a topology; its data remains."""
    from isthmus_topology.bring_up import bring_down

    bring_down(opened(directory), purge=purge)


def kill(node: NodeArgument, directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Kill a node or a service with SIGKILL, like a crash."""
    _signal(directory, node, "SIGKILL")


def pause(node: NodeArgument, directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Suspend a node or a service with SIGSTOP, like a stalled machine."""
    _signal(directory, node, "SIGSTOP")


def resume(node: NodeArgument, directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Continue a paused node or service, or restart a killed one."""
    from isthmus_topology.bring_up import READY_SECONDS
    from isthmus_topology.processes import await_ready, start_again
    from isthmus_topology.reading import TopologyRefused

    site = opened(directory)
    try:
        part = site.find(node)
        if site.state_of(node) != "dead":
            _signal(directory, node, "SIGCONT")
            return
        start_again(site, part)
        await_ready(site, [node], READY_SECONDS, lambda _: None)
    except TopologyRefused as refusal:
        fail(str(refusal))


def _signal(directory: Path, node: str, name: str) -> None:
    from signal import Signals

    from isthmus_topology.reading import TopologyRefused

    site = opened(directory)
    try:
        site.find(node)
    except TopologyRefused as refusal:
        fail(str(refusal))
    if site.state_of(node) == "dead":
        fail(f"{node} is not running; `isthmus resume {node}` starts it")
    site.processes[node].signal(Signals[name])


def opened(directory: Path) -> Site:
    """The topology of a directory, or an error for the user."""
    from isthmus_topology.processes import open_site
    from isthmus_topology.reading import TopologyRefused

    try:
        return open_site(directory)
    except TopologyRefused as refusal:
        fail(str(refusal))
