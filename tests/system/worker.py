"""A service of ours as a process that tells where its metrics are: a linker's worker, a mirror."""

import signal
import subprocess
import threading
from pathlib import Path
from typing import IO, Final

from tests.node import ISTHMUS

READY_SECONDS: Final = 30
STOP_SECONDS: Final = 30


class WorkerProcess:
    """`start` again after `kill` or `stop`."""

    def __init__(self, log_path: Path, *command: str | Path) -> None:
        self.log_path = log_path
        self.url = ""
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def start(self) -> None:
        """Start and wait until it says that it has begun."""
        assert self._process is None
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            [ISTHMUS, *self._command, "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout is not None
        give_up = threading.Timer(READY_SECONDS, self._process.kill)
        give_up.start()
        try:
            line = self._process.stdout.readline()
        finally:
            give_up.cancel()
        assert line.startswith("ready http://"), self.log_path.read_text()[-4000:]
        self.url = line.split()[1]

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Pause it, or let it go on."""
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        finally:
            process.kill()
            assert process.stdout is not None
            assert self._log is not None
            process.stdout.close()
            self._log.close()
