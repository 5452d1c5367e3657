"""The processes of a topology, and what is known of them between two commands: a directory with a state file, logs and data."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from isthmus_client.clock import monotonic_ms

from isthmus_topology.description import Topology, read_topology
from isthmus_topology.plan import NodePlan, Plan, ServicePlan
from isthmus_topology.planner import make_plan
from isthmus_topology.reading import TopologyRefused

STATE_FILE: Final = "state.json"
WAN: Final = "wan"
"""The name of the emulator's process; no node can have it, as a node's name ends with a number."""
_POLL_SECONDS: Final = 0.02
_STOP_SECONDS: Final = 20.0
_SETTINGS_PREFIX: Final = "KAFKA_"
_LOG_TAIL: Final = 2_000


@dataclass(frozen=True, slots=True)
class Process:
    """A started process: its id, and its start time, because ids are reused."""

    pid: int
    started: int

    @property
    def state(self) -> str:
        """running, paused or dead."""
        stat = _stat(self.pid)
        if stat is None or int(stat[19]) != self.started or stat[0] in "ZX":
            return "dead"
        return "paused" if stat[0] in "Tt" else "running"

    @property
    def resident_bytes(self) -> int:
        try:
            fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        except OSError:
            return 0
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        if self.state != "dead":
            os.kill(self.pid, number)


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on, which follows the name in parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


@dataclass(slots=True)
class Site:
    """A topology in a directory."""

    directory: Path
    text: str
    topology: Topology
    plan: Plan
    processes: dict[str, Process] = field(default_factory=dict)

    @property
    def control(self) -> Path:
        """The emulator's socket, by a path that is short enough for one."""
        return Path(os.path.relpath(self.directory / "wan.socket"))

    def find(self, name: str) -> NodePlan | ServicePlan:
        """A node or a service by its name."""
        parts: list[NodePlan | ServicePlan] = [*self.plan.nodes, *self.plan.services]
        part = next((each for each in parts if each.name == name), None)
        if part is None:
            raise TopologyRefused(f"{name} does not exist; choose one of {', '.join(each.name for each in parts)}")
        return part

    def state_of(self, name: str) -> str:
        process = self.processes.get(name)
        return "dead" if process is None else process.state

    def is_up(self) -> bool:
        return any(process.state != "dead" for process in self.processes.values())

    def save(self) -> None:
        """Remember the processes; the file is replaced at once."""
        state = {
            "topology": self.text,
            "processes": {name: [process.pid, process.started] for name, process in self.processes.items()},
        }
        temporary = self.directory / (STATE_FILE + ".tmp")
        temporary.write_text(json.dumps(state, indent=1))
        temporary.replace(self.directory / STATE_FILE)


def new_site(directory: Path, text: str) -> Site:
    """A topology to be started; raises TopologyRefused."""
    topology = read_topology(text)
    return Site(directory, text, topology, make_plan(topology, directory.absolute()))


def open_site(directory: Path) -> Site:
    """The topology that was started here; raises TopologyRefused when there is none."""
    try:
        state: dict[str, Any] = json.loads((directory / STATE_FILE).read_text())
    except FileNotFoundError:
        raise TopologyRefused(f"nothing was started in {directory}; `isthmus up` does it") from None
    except (OSError, ValueError) as error:
        raise TopologyRefused(f"{directory / STATE_FILE} cannot be read: {error}") from error
    site = new_site(directory, state["topology"])
    site.processes = {name: Process(*known) for name, known in state["processes"].items()}
    return site


def start(site: Site, name: str, command: Sequence[str]) -> None:
    """Start a process that outlives this one; its output goes to files in its directory."""
    directory = site.directory / name
    directory.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS_PREFIX)}
    with (directory / "out").open("wb") as out, (directory / "log").open("ab") as log:
        # Not Popen, which expects to outlive its child.
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "isthmus_cli", *command],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, out.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
            ],
            setsid=True,
        )
    stat = _stat(pid)
    assert stat is not None, "a child exists until it is waited for"
    site.processes[name] = Process(pid, int(stat[19]))
    site.save()


def start_node(site: Site, node: NodePlan) -> None:
    """Write the node's settings and start it."""
    directory = site.directory / node.name
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}={value}\n" for key, value in node.settings.items()]
    (directory / "server.properties").write_text("".join(lines))
    start(site, node.name, ["node", "-c", str(directory / "server.properties")])


def start_service(site: Site, service: ServicePlan) -> None:
    """Write the files of the service and start it."""
    directory = site.directory / service.name
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in service.files.items():
        (directory / name).write_text(content)
    start(site, service.name, service.command)


def start_again(site: Site, part: NodePlan | ServicePlan) -> None:
    """Start a node or service that has ended."""
    if isinstance(part, NodePlan):
        start_node(site, part)
    else:
        start_service(site, part)


def await_ready(site: Site, names: Iterable[str], seconds: float, on_ready: Callable[[str], None]) -> None:
    """Wait until each process is ready; raises TopologyRefused with the end of the log if one ends or times out."""
    waiting = list(names)
    deadline = monotonic_ms() + 1000 * seconds
    while waiting:
        for name in list(waiting):
            if b"ready" in (site.directory / name / "out").read_bytes():
                waiting.remove(name)
                on_ready(name)
            elif site.state_of(name) == "dead":
                raise TopologyRefused(f"{name} has ended:\n{log_tail(site, name)}")
        if monotonic_ms() > deadline:
            late = ", ".join(waiting)
            raise TopologyRefused(f"{late} not ready after {seconds:.0f} s:\n{log_tail(site, waiting[0])}")
        _reap(site)
        time.sleep(_POLL_SECONDS)


def log_tail(site: Site, name: str) -> str:
    return (site.directory / name / "log").read_bytes()[-_LOG_TAIL:].decode(errors="replace")


def stop(site: Site, names: Sequence[str]) -> None:
    """Stop processes in order with SIGTERM, and with SIGKILL after a timeout."""
    for name in names:
        site.processes[name].signal(signal.SIGCONT)
        site.processes[name].signal(signal.SIGTERM)
    deadline = monotonic_ms() + 1000 * _STOP_SECONDS
    left = list(names)
    while left and monotonic_ms() < deadline:
        _reap(site)
        left = [name for name in left if site.state_of(name) != "dead"]
        time.sleep(_POLL_SECONDS)
    for name in left:
        site.processes[name].signal(signal.SIGKILL)


def _reap(site: Site) -> None:
    """Reap ended children of this process; other processes are not its children."""
    for process in site.processes.values():
        with suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
