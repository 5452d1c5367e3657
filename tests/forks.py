"""Commands of ours as forks of a process that has imported the product: the start of a node takes half the processor time.

Each is a process of its own, with its own environment and outputs. Only its command line is that of the server that forks.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.preloaded"])


class Fork:
    """`isthmus` with these arguments, running; as much of `subprocess.Popen` as tests use."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Its standard output is read from `stdout`; what it writes to standard error is appended to the log."""
        reader, writer = _CONTEXT.Pipe(duplex=False)
        with reader, writer:
            self._process = _CONTEXT.Process(target=_run, args=(arguments, dict(environment), writer, log), daemon=True)
            self._process.start()
            self.stdout = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        """The exit status, once it has ended; raises TimeoutExpired."""
        self._process.join(seconds)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), seconds)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its status is on the way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(arguments: Sequence[str], environment: Mapping[str, str], output: Connection, log: Path) -> None:
    from isthmus_cli.main import main

    with output, log.open("ab") as errors:
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["isthmus", *arguments]
    main()
