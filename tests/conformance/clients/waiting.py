"""Waiting for conditions, never for time."""

import time
from collections.abc import Callable
from typing import Final

DEADLINE_SECONDS: Final = 60.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Ask again and again; `condition` may itself take its time, as a client's poll does."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
