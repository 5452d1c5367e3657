"""The loop that drives a core on asyncio: feed, take, persist, send, reply, re-arm one timer.

It runs on the event loop's thread, within the call that feeds it, so that an event costs no task. Only `Host.sync` may block; it runs in
the given executor, or inline without one. While one sync runs further writes are made, and the next sync covers them all: group commit.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, Protocol, TypeVar

from isthmus_model.clocks import MonotonicClock

from isthmus_broker.core.contract import Core, Ready

E = TypeVar("E")
W = TypeVar("W")
S = TypeVar("S")
R = TypeVar("R")
N = TypeVar("N")
W_contra = TypeVar("W_contra", contravariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
N_contra = TypeVar("N_contra", contravariant=True)


class Host(Protocol[W_contra, S, R_contra, N_contra]):
    """The operations that the driver needs. All except `sync` are called on the event loop's thread and return quickly; they may feed the
    driver, which processes the event after the current one."""

    def fill(self, send: S) -> S:
        """Complete a message with data from storage, as it is before the writes of the same Ready."""

    def write(self, write: W_contra) -> None:
        """Perform a write; it need not be durable yet."""

    def sync(self) -> None:
        """Make every write so far durable. May run in a worker thread, at the same time as `write` and `fill`."""

    def send(self, send: S) -> None:
        """Send a message, without waiting for it to arrive."""

    def reply(self, reply: R_contra) -> None:
        """Deliver a result to the waiting caller."""

    def note(self, note: N_contra) -> None:
        """Log or count a fact."""


class Driver(Generic[E, W, S, R, N]):
    """Drives one core. A core that crashes, or a disk that fails, ends the driver and is reported to `on_fault`, once."""

    def __init__(
        self,
        core: Core[E, W, S, R, N],
        host: Host[W, S, R, N],
        *,
        clock: MonotonicClock,
        executor: Executor | None,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        """`clock` counts milliseconds and never runs backwards."""
        self._core = core
        self._host = host
        self._clock = clock
        self._executor = executor
        self._on_fault = on_fault
        self._events: deque[E] = deque()
        self._unsynced: list[Ready[W, S, R, N]] = []
        self._syncing: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: int | None = None
        self._is_running = False
        self._is_stopped = False

    def start(self) -> None:
        """Process the outputs of the core's construction."""
        self._run(lambda: None)

    def feed(self, event: E) -> None:
        self._events.append(event)
        self._run(lambda: None)

    async def stop(self) -> None:
        """Accept no more events, and wait for the sync in progress. Outputs that depend on it are dropped."""
        self._is_stopped = True
        self._disarm()
        if self._syncing is not None:
            await asyncio.wait([self._syncing])

    # The loop

    def _run(self, call: Callable[[], None]) -> None:
        """Call into the core, then process everything that follows."""
        if self._is_running or self._is_stopped:
            return
        self._is_running = True
        try:
            call()
            self._handle(self._core.take())
            while self._events or self._sync_inline():
                if self._events:
                    self._core.step(self._events.popleft(), self._clock())
                self._handle(self._core.take())
            self._start_sync()
        except Exception as error:  # noqa: BLE001 - whatever it is, this core's state can no longer be trusted
            self._fail(error)
        finally:
            self._is_running = False
        self._arm()

    def _handle(self, ready: Ready[W, S, R, N]) -> None:
        if not ready:
            return
        host = self._host
        send_now = [host.fill(send) for send in ready.send_now]
        after = tuple(host.fill(send) for send in ready.send_after_persist)
        for send in send_now:
            host.send(send)
        for reply in ready.replies:
            host.reply(reply)
        for write in ready.persist:
            host.write(write)
        for note in ready.notes:
            host.note(note)
        if ready.persist or (after and (self._unsynced or self._syncing is not None)):
            self._unsynced.append(Ready(mark=ready.mark, persist=ready.persist, send_after_persist=after))
        else:
            for send in after:
                host.send(send)

    # Durability

    def _sync_inline(self) -> bool:
        """Without an executor: make everything durable here and now. Returns whether there was anything to do."""
        if self._executor is not None or not self._unsynced:
            return False
        self._host.sync()
        self._confirm(self._take_unsynced())
        return True

    def _start_sync(self) -> None:
        if self._executor is None or self._syncing is not None or not self._unsynced or self._is_stopped:
            return
        batch = self._take_unsynced()
        self._syncing = asyncio.get_running_loop().run_in_executor(self._executor, self._host.sync)
        self._syncing.add_done_callback(lambda done: self._synced(done, batch))

    def _take_unsynced(self) -> list[Ready[W, S, R, N]]:
        batch, self._unsynced = self._unsynced, []
        return batch

    def _synced(self, done: "asyncio.Future[None]", batch: list[Ready[W, S, R, N]]) -> None:
        self._syncing = None
        error = done.exception()
        if error is not None:
            self._fail(error)
        else:
            self._run(lambda: self._confirm(batch))

    def _confirm(self, batch: list[Ready[W, S, R, N]]) -> None:
        self._core.persisted(batch[-1].mark, self._clock())
        for ready in batch:
            for send in ready.send_after_persist:
                self._host.send(send)

    # Time

    def _arm(self) -> None:
        """One timer, for the core's next deadline."""
        due = None if self._is_stopped else self._core.deadline()
        if due == self._timer_due:
            return
        self._disarm()
        if due is not None:
            self._timer_due = due
            delay = max(0, due - self._clock()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_due = None
        self._run(lambda: self._core.tick(self._clock()))

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_due = None

    def _fail(self, error: BaseException) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._disarm()
            self._on_fault(error)
