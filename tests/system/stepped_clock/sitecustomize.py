"""Shifts the wall clock of nodes under test. Python imports this at its start if the folder is on PYTHONPATH.

The shift, in milliseconds, is the text of the file `clock-step` beside the configuration file that the node was started with.
"""

import sys
import time
from pathlib import Path

_CHECK_SECONDS = 0.05


class _Shift:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._due = 0.0
        self._ns = 0

    def ns(self) -> int:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _CHECK_SECONDS
            try:
                self._ns = int(self._path.read_text()) * 1_000_000
            except (FileNotFoundError, ValueError):
                self._ns = 0
        return self._ns


def _shift_clock(configuration: str) -> None:
    shift, time_ns = _Shift(Path(configuration).parent / "clock-step"), time.time_ns
    time.time_ns = lambda: time_ns() + shift.ns()
    time.time = lambda: (time_ns() + shift.ns()) / 1e9


_arguments = sys.orig_argv
if "-c" in _arguments[3:]:
    _shift_clock(_arguments[_arguments.index("-c", 3) + 1])
