"""A simulated process: an owner of callbacks, tasks, sockets and threads, which can be stopped, continued and killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final


class Process:
    """One life of a program on a machine. What it has scheduled is dropped when it is killed, and postponed while it is stopped."""

    def __init__(self, name: str, host: str, wall_ms: Callable[[], int]) -> None:
        self.name = name
        self.host = host
        self.wall_ms = wall_ms
        self.is_alive = True
        self.is_stopped = False
        self.postponed: list[asyncio.Handle] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        """Kept until the end of the life: a task that is freed earlier would run its `finally` clauses after its process has died."""
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return self.name


CURRENT: Final[ContextVar[Process | None]] = ContextVar("process", default=None)
"""The process whose code runs; None in the simulation itself."""


def current() -> Process:
    """The process whose code runs."""
    process = CURRENT.get()
    assert process is not None, "only processes use the network and threads"
    return process
