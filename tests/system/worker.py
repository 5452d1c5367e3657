"""A service of ours as a process that prints where its metrics are: a linker's worker, a mirror."""

from pathlib import Path

from tests.process import Process


class WorkerProcess(Process):
    """`start` again after `kill` or `stop`."""

    def __init__(self, log_path: Path, *command: str | Path) -> None:
        super().__init__(log_path)
        self.url = ""
        self._command = command

    def start(self) -> None:
        """Start and wait until it says that it has begun."""
        self._fork([*map(str, self._command), "--http", "127.0.0.1:0"])
        self.url = self.await_ready().split()[-1]
