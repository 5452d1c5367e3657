"""The two systems under test, as processes that are started, timed and ended alike.

Isthmus runs from a virtual environment of its own, built from requirements/run.txt as a user's is: the tests' tools in
.venv change what gets imported, and so the start time and the memory.
"""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.process import cpu_seconds
from tests.kafka import CLUSTER_ID, fetch
from tests.ports import free_ports

ROOT: Final = Path(__file__).parent.parent
INSTALLATION: Final = ROOT / ".tools" / "isthmus-run"
SERVE_SECONDS: Final = 120
STOP_SECONDS: Final = 60
POLL_SECONDS: Final = 0.005

ISTHMUS: Final = "Isthmus"
KAFKA: Final = "Apache Kafka"
SYSTEMS: Final = (ISTHMUS, KAFKA)


class Broker:
    """One node of either system; `start` returns at once, `await_serving` when it accepts connections."""

    def __init__(self, name: str, directory: Path, port: int, command: Sequence[str]) -> None:
        self.name = name
        self.directory = directory
        self.bootstrap = f"127.0.0.1:{port}"
        self._port = port
        self.command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process."""
        assert self._process is None
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        with (self.directory / "out").open("ab") as out:
            self._process = subprocess.Popen(self.command, stdout=out, stderr=out, env=environment)

    def await_serving(self) -> None:
        """Until its listener accepts."""
        assert self._process is not None
        deadline = time.monotonic() + SERVE_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} does not serve:\n{(self.directory / 'out').read_text()[-4000:]}")
            time.sleep(POLL_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, without waiting for what comes of it."""
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """SIGTERM, and wait."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        finally:
            process.kill()

    def cpu_of(self, work: Callable[[], None]) -> float:
        """The CPU seconds that the broker spends while the work is done."""
        before = cpu_seconds(self.pid)
        work()
        return cpu_seconds(self.pid) - before


def make(name: str, directory: Path) -> Broker:
    """A formatted broker that has not started."""
    directory.mkdir(parents=True)
    port, controller = free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": str(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    properties = directory / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    if name == KAFKA:
        tools = fetch() / "bin"
        _run(tools / "kafka-storage.sh", "format", "-t", CLUSTER_ID, "-c", properties)
        return Broker(name, directory, port, [str(tools / "kafka-server-start.sh"), str(properties)])
    return Broker(name, directory, port, [str(install() / "isthmus"), "node", "-c", str(properties)])


def install() -> Path:
    """The commands of an installed Isthmus; it is reinstalled when its requirements change."""
    requirements = ROOT / "requirements" / "run.txt"
    stamp = INSTALLATION / "requirements.sha256"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    commands = INSTALLATION / "bin"
    if stamp.exists() and stamp.read_text() == digest:
        return commands
    _run(sys.executable, "-m", "venv", "--clear", INSTALLATION)
    pip = (commands / "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--require-hashes", "-r", requirements)
    _run(*pip, "--no-deps", "--no-build-isolation", "-e", ROOT)
    stamp.write_text(digest)
    return commands


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
