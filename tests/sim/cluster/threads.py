"""Worker threads: what is given to an executor runs at a later moment of virtual time, in the order of each executor."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.sim.cluster.loop import SimLoop
from tests.sim.cluster.process import Process, current


class _Job:
    def __init__(self, work: Callable[[], Any], done: asyncio.Future[Any]) -> None:
        self._work = work
        self._done = done

    def run(self) -> None:
        try:
            result = self._work()
        except Exception as error:  # noqa: BLE001 - the caller's, as with a real executor
            if not self._done.done():
                self._done.set_exception(error)
        else:
            if not self._done.done():
                self._done.set_result(result)


class Threads:
    """The executors of all processes."""

    def __init__(self, loop: SimLoop, delay: Callable[[Process], float]) -> None:
        """`delay` is the time that a job of a process takes."""
        self._loop = loop
        self._delay = delay
        self._jobs: dict[object, deque[_Job]] = {}

    def run(self, executor: object, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a function later. Without an executor it does not wait for other jobs."""
        done = self._loop.create_future()
        job = _Job(lambda: function(*args), done)
        if executor is None:
            self._loop.call_later(self._delay(current()), job.run)
            return done
        jobs = self._jobs.setdefault(executor, deque())
        jobs.append(job)
        if len(jobs) == 1:
            self._loop.call_later(self._delay(current()), self._next, executor)
        return done

    def _next(self, executor: object) -> None:
        jobs = self._jobs[executor]
        if jobs:
            jobs[0].run()
            jobs.popleft()
        if jobs:
            self._loop.call_later(self._delay(current()), self._next, executor)

    def shut_down(self, executor: object) -> None:
        """Run what is queued, as a process does that waits for its workers."""
        jobs = self._jobs.get(executor, ())
        while jobs:
            jobs[0].run()
            jobs.popleft()
