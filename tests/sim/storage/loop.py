"""An event loop in virtual time whose worker threads run when the simulation says so."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Job = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]


class SimLoop(asyncio.AbstractEventLoop):
    """Nothing runs unless the simulation calls it: `run` calls what is ready, `run_job` is a worker thread's turn, `advance` moves time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.errors: list[BaseException] = []
        """Exceptions that no caller handles."""
        self.jobs: deque[Job] = deque()
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._planned = 0
        self._tasks: list[asyncio.Task[Any]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop, as for the code that the loop calls."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def run(self, steps: int = 10_000) -> int:
        """Call what is ready; returns the number of calls."""
        count = 0
        while self._ready and count < steps:
            handle = self._ready.popleft()
            count += 1
            if not handle.cancelled():
                with self.running():
                    handle._run()
        return count

    def run_job(self) -> bool:
        """Run the oldest job of the worker threads, and the callbacks of its result; returns whether there was one."""
        if not self.jobs:
            return False
        future, work, arguments = self.jobs.popleft()
        if future.cancelled():
            return True
        try:
            result = work(*arguments)
        except Exception as error:  # noqa: BLE001 - an executor passes any exception to the caller
            future.set_exception(error)
        else:
            future.set_result(result)
        return True

    def advance(self, seconds: float) -> None:
        """Move time, and make the timers ready that are due."""
        self.now += seconds
        while self._timers and self._timers[0][0] <= self.now:
            self._ready.append(heapq.heappop(self._timers)[2])

    def settle(self) -> None:
        """Run everything that does not wait for time."""
        while self.run() or self.run_job():
            pass

    def abandon(self) -> None:
        """Drop what the dead process was doing."""
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()

    # -- asyncio's interface -------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._planned += 1
        heapq.heappush(self._timers, (when, self._planned, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: a cancelled handle is skipped when it is due."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:  # type: ignore[override]
        task = asyncio.Task(coro, loop=self, **options)
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.errors.append(error)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        self.jobs.append((future, func, args))
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(error if isinstance(error, BaseException) else RuntimeError(context["message"]))
