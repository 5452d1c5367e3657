"""A node as a process of its own, for tests that kill it, talk to it with real clients, or read what it left on disk."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ISTHMUS = Path(sys.executable).with_name("isthmus")
READY_SECONDS = 60
STOP_SECONDS = 60


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Node:
    """One process; `start` again after `kill` or `stop` to see what it makes of its files."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port, controller = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(directory / "data"),
            **(settings or {}),
        }
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    @property
    def log_path(self) -> Path:
        """Where its standard error goes, over all its lives."""
        return self.directory / "node.log"

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> str:
        """Start and wait until it serves; returns the line it prints then."""
        assert self._process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = [argument for key, value in self.settings.items() for argument in ("--set", f"{key}={value}")]
        self._log = self.log_path.open("ab")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        self._process = subprocess.Popen(
            [ISTHMUS, "node", *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
        )
        give_up = threading.Timer(READY_SECONDS, self._process.kill)
        give_up.start()
        try:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        finally:
            give_up.cancel()
        assert line.startswith("ready "), f"the node did not start:\n{self.log_path.read_text()[-4000:]}"
        return line

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            status = process.wait(STOP_SECONDS)
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()
            if self._log is not None:
                self._log.close()
        return status

    def log(self) -> str:
        """What it said on standard error."""
        return self.log_path.read_text()


@contextmanager
def running_node(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[Node]:
    """A node that ends with the block."""
    node = Node(directory, settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()
