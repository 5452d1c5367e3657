"""A deterministic event loop: virtual time, and callbacks that belong to processes.

Callbacks run in the order in which they were scheduled, timers in the order of their times. A callback belongs to the process in whose
context it was scheduled: it never runs once that process is dead, and waits while it is stopped.
"""

from __future__ import annotations

import asyncio
import heapq
import socket
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

from tests.sim.cluster.process import CURRENT, Process, current
from tests.sim.power.errors import ProcessDied
from tests.sim.world import Violation

if TYPE_CHECKING:
    from tests.sim.cluster.net import Network, SimSocket
    from tests.sim.cluster.threads import Threads

SPIN_MAX: Final = 50_000
"""Callbacks at one moment; more are a loop without a pause."""
_START: Final = 1_000.0


class _Handle(asyncio.TimerHandle):
    __slots__ = ("process",)

    def __init__(
        self, when: float, callback: Callable[..., Any], args: Any, loop: SimLoop, context: Context | None
    ) -> None:
        """As its base classes, which also do what debugging needs: a life makes tens of thousands."""
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args, self._when = loop, callback, args, when
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        self.process: Process | None = self._context.get(CURRENT)

    def run(self) -> None:
        self._context.run(self._callback, *self._args)


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of all processes."""

    net: Network
    threads: Threads

    def __init__(self) -> None:
        self._is_over = False
        super().__init__()
        self._now = _START
        self._soon: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._planned = 0
        self.processes: list[Process] = []
        self.callbacks = 0
        self.fault: BaseException | None = None
        """The first error that no code handled."""

    # -- processes -----------------------------------------------------------------------------------------------------------

    def spawn(self, process: Process, main: Coroutine[Any, Any, None]) -> None:
        """Start a process."""
        self.processes.append(process)
        process.context.run(self.create_task, main).add_done_callback(self._check_main)

    def _check_main(self, main: asyncio.Task[Any]) -> None:
        error = None if main.cancelled() else main.exception()
        if isinstance(error, Exception) and self.fault is None:
            self.fault = error

    def stop_process(self, process: Process) -> None:
        """SIGSTOP."""
        process.is_stopped = True

    def continue_process(self, process: Process) -> None:
        """SIGCONT."""
        process.is_stopped = False
        self._soon.extend(process.postponed)  # type: ignore[arg-type]
        process.postponed.clear()

    # -- running -------------------------------------------------------------------------------------------------------------

    def run_until(self, end: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Run up to that time, or until `done`, which is checked when time advances; returns whether it was done."""
        asyncio._set_running_loop(self)
        try:
            while not done():
                if self._timers and self._timers[0][0] <= end:
                    self._now = max(self._now, self._timers[0][0])
                    while self._timers and self._timers[0][0] <= self._now:
                        self._soon.append(heapq.heappop(self._timers)[2])
                elif not self._soon:
                    self._now = end
                    return done()
                self._run_ready()
            return True
        finally:
            asyncio._set_running_loop(None)

    def _run_ready(self) -> None:
        ready, count = self._soon, 0
        while ready:
            handle = ready.popleft()
            process = handle.process
            if handle._cancelled or (process is not None and not process.is_alive):
                continue
            if process is not None and process.is_stopped:
                process.postponed.append(handle)
                continue
            count += 1
            if count > SPIN_MAX:
                raise Violation(f"spinning: {process} does not pause: {handle}")
            try:
                handle.run()
            except ProcessDied:
                pass
            except Exception as error:  # noqa: BLE001 - as on any event loop: one callback's failure does not end the others
                self.call_exception_handler({"message": f"{handle} of {process}", "exception": error})
            if self.fault is not None:
                raise self.fault
        self.callbacks += count

    def end(self) -> None:
        """Nothing runs any more; tasks are closed without effect."""
        self._is_over = True
        self._soon.clear()
        self._timers.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a coroutine that a task would have awaited next
            for process in self.processes:
                for task in process.tasks:
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
                process.tasks.clear()
                process.postponed.clear()

    # -- asyncio's interface -------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(0.0, callback, args, self, context)
        if not self._is_over:
            self._soon.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Handle(when, callback, args, self, context)
        if not self._is_over:
            self._planned += 1
            heapq.heappush(self._timers, (when, self._planned, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the queue until its time."""

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        process = CURRENT.get()
        if process is not None:
            process.tasks.add(task)
            task.add_done_callback(process.tasks.discard)
        return task

    def set_debug(self, enabled: bool) -> None:
        """Debugging is always off: it measures real time."""

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """End the life with an error that no code handled; the callbacks that retrieve those of a dead process never run."""
        error, future = context.get("exception"), context.get("future")
        is_dead = any(future in process.tasks for process in self.processes if not process.is_alive)
        if self._is_over or self.fault is not None or is_dead:
            return
        if future is None or isinstance(future, asyncio.Task):
            self.fault = error if isinstance(error, Exception) else Violation(str(context.get("message")))

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        return self.threads.run(executor, func, *args)

    # -- sockets -------------------------------------------------------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> list[Any]:
        address = (host or current().host, port)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        transport = await self.net.connect(current(), host, port)
        protocol = protocol_factory()
        transport.attach(protocol)
        return transport, protocol

    async def sock_accept(self, sock: SimSocket) -> tuple[SimSocket, tuple[str, int]]:  # type: ignore[override]
        return await sock.accept()

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], sock: SimSocket
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        transport, protocol = sock.take_transport(), protocol_factory()
        transport.attach(protocol)
        return transport, protocol


def _close(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException:  # noqa: BLE001 - code of dead processes: it awaits in a `finally`, or touches its disk
        return
