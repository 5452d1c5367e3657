"""A process of a test, with its log, its first output, and its end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from tests.forks import Fork

ISTHMUS: Final = Path(sys.executable).with_name("isthmus")
READY_SECONDS: Final = 60
STOP_SECONDS: Final = 60
_LOG_SHOWN: Final = 4000


class Process:
    """Started by a subclass, again after `kill` or `stop`; its standard error goes to one log over all its lives."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self._process: subprocess.Popen[str] | Fork | None = None
        self._log: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started, and not ended by the test."""
        return self._process is not None

    def _spawn(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        *,
        prints_ready: bool = True,
    ) -> None:
        """Start without waiting. The output of a process that does not print `ready` goes to the log as well."""
        assert self._process is None
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE if prints_ready else self._log,
            stderr=self._log,
            text=True,
            env=environment,
        )

    def _fork(self, arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        """Start `isthmus` with these arguments, as a fork, without waiting."""
        assert self._process is None
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self.log_path.touch()
        self._process = Fork(arguments, environment, self.log_path)

    def await_ready(self) -> str:
        """What it prints until the line that says `ready`; a process that does not come to that is ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        give_up = threading.Timer(READY_SECONDS, self._process.kill)
        give_up.start()
        output = ""
        try:
            for line in self._process.stdout:
                output += line
                if line.startswith("ready"):
                    return output
        finally:
            give_up.cancel()
        self.kill()
        raise AssertionError(f"the process did not start:\n{output}\n{self.log()[-_LOG_SHOWN:]}")

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send a signal that does not end it, or whose end another part of the test awaits."""
        assert self._process is not None
        self._process.send_signal(number)

    def log(self) -> str:
        """Its standard error."""
        return self.log_path.read_text()

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()
            if self._log is not None:
                self._log.close()
