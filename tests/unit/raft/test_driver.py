"""The driver's promises: order, what waits for the disk, group commit, one timer, one fault."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from isthmus_broker.core.contract import Ready
from isthmus_broker.edge.quorum.driver import Driver
from isthmus_model.clocks import MonotonicMs


class EchoCore:
    """Writes, sends and replies with every event's name, and ticks when the test says so."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.due: int | None = None
        self.on_call: Callable[[], None] = lambda: None
        self._owed: list[str] = []
        self._mark = 0

    def step(self, event: str, now_ms: int) -> None:
        if event == "bug":
            raise AssertionError("an invariant is broken")
        self._owed.append(event)

    def tick(self, now_ms: int) -> None:
        self.due = None
        self._owed.append(f"tick at {now_ms}")
        self.on_call()

    def deadline(self) -> int | None:
        return self.due

    def persisted(self, mark: int, now_ms: int) -> None:
        self.log.append(f"persisted {mark}")
        self.on_call()

    def take(self) -> Ready[str, str, str, str]:
        owed, self._owed = tuple(self._owed), []
        if not owed:
            return Ready(mark=self._mark)
        self._mark += 1
        writes = tuple(each for each in owed if not each.startswith("volatile"))
        return Ready(mark=self._mark, persist=writes, send_now=owed, send_after_persist=owed, replies=owed, notes=owed)


class LoggingHost:
    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.gate: threading.Event | None = None
        self.failure: OSError | None = None
        self.on_reply: Callable[[str], None] = lambda _: None

    def fill(self, send: str) -> str:
        self._log.append(f"fill {send}")
        return send

    def write(self, write: str) -> None:
        self._log.append(f"write {write}")

    def sync(self) -> None:
        if self.gate is not None:
            assert self.gate.wait(20)
        if self.failure is not None:
            raise self.failure
        self._log.append("sync")

    def send(self, send: str) -> None:
        self._log.append(f"send {send}")

    def reply(self, reply: str) -> None:
        self._log.append(f"reply {reply}")
        self.on_reply(reply)

    def note(self, note: str) -> None:
        self._log.append(f"note {note}")


class Rig:
    def __init__(self, executor: ThreadPoolExecutor | None = None) -> None:
        self.core = EchoCore()
        self.log = self.core.log
        self.host = LoggingHost(self.log)
        self.faults: list[BaseException] = []
        self.now = 0
        self._changed = asyncio.Event()
        self.core.on_call = self._changed.set
        self.driver: Driver[str, str, str, str, str] = Driver(
            self.core, self.host, clock=lambda: MonotonicMs(self.now), executor=executor, on_fault=self._fault
        )

    def _fault(self, error: BaseException) -> None:
        self.faults.append(error)
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not done():
                self._changed.clear()
                await self._changed.wait()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def inline() -> Rig:
    rig = Rig()
    rig.driver.start()
    return rig


def test_reads_come_before_writes_and_durable_sends_after_the_sync() -> None:
    async def run() -> list[str]:
        rig = await inline()
        rig.driver.feed("a")
        return rig.log

    assert asyncio.run(run()) == [
        "fill a",
        "fill a",
        "send a",
        "reply a",
        "write a",
        "note a",
        "sync",
        "persisted 1",
        "send a",
    ]


def test_outputs_without_writes_do_not_wait_for_the_disk() -> None:
    async def run() -> list[str]:
        rig = await inline()
        rig.driver.feed("volatile")
        return rig.log

    assert asyncio.run(run()) == [
        "fill volatile",
        "fill volatile",
        "send volatile",
        "reply volatile",
        "note volatile",
        "send volatile",
    ]


def test_an_event_fed_from_within_comes_after_the_current_one() -> None:
    async def run() -> list[str]:
        rig = await inline()
        rig.host.on_reply = lambda reply: rig.driver.feed("volatile b") if reply == "volatile a" else None
        rig.driver.feed("volatile a")
        return [line for line in rig.log if line.startswith(("reply", "note"))]

    assert asyncio.run(run()) == ["reply volatile a", "note volatile a", "reply volatile b", "note volatile b"]


def test_one_sync_covers_all_that_was_written_during_the_one_before(executor: ThreadPoolExecutor) -> None:
    async def run() -> list[str]:
        rig = Rig(executor)
        gate = rig.host.gate = threading.Event()
        for name in ("a", "b", "volatile", "c"):
            rig.driver.feed(name)
        gate.set()
        await rig.until(lambda: "persisted 4" in rig.log)
        return [line for line in rig.log if line.startswith(("sync", "persisted", "write"))]

    assert asyncio.run(run()) == ["write a", "write b", "write c", "sync", "persisted 1", "sync", "persisted 4"]


def test_durable_sends_keep_their_order_behind_the_sync(executor: ThreadPoolExecutor) -> None:
    async def run() -> list[str]:
        rig = Rig(executor)
        gate = rig.host.gate = threading.Event()
        for name in ("a", "volatile"):
            rig.driver.feed(name)
        rig.log.clear()
        gate.set()
        await rig.until(lambda: "persisted 2" in rig.log)
        await rig.driver.stop()
        return rig.log

    assert asyncio.run(run()) == ["sync", "persisted 1", "send a", "sync", "persisted 2", "send volatile"]


def test_the_timer_calls_tick_at_the_deadline_and_not_after_it_is_gone() -> None:
    async def run() -> list[str]:
        rig = Rig()
        rig.core.due = 5
        rig.driver.start()
        rig.now = 7
        await rig.until(lambda: "write tick at 7" in rig.log)
        return [line for line in rig.log if line.startswith("write")]

    assert asyncio.run(run()) == ["write tick at 7"]


def test_a_broken_core_is_reported_once_and_never_called_again() -> None:
    async def run() -> Rig:
        rig = await inline()
        rig.driver.feed("bug")
        rig.driver.feed("a")
        return rig

    rig = asyncio.run(run())
    assert [str(fault) for fault in rig.faults] == ["an invariant is broken"]
    assert rig.log == []


def test_a_failed_sync_releases_nothing(executor: ThreadPoolExecutor) -> None:
    async def run() -> Rig:
        rig = Rig(executor)
        rig.host.failure = OSError(28, "No space left on device")
        rig.driver.feed("a")
        await rig.until(lambda: bool(rig.faults))
        rig.driver.feed("b")
        return rig

    rig = asyncio.run(run())
    assert rig.faults == [rig.host.failure]
    assert rig.log.count("send a") == 1
    assert "persisted 1" not in rig.log
    assert "write b" not in rig.log


def test_stopping_waits_for_the_disk_and_sends_nothing_more(executor: ThreadPoolExecutor) -> None:
    async def run() -> list[str]:
        rig = Rig(executor)
        gate = rig.host.gate = threading.Event()
        rig.driver.feed("a")
        stopping = asyncio.ensure_future(rig.driver.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        gate.set()
        await stopping
        return rig.log

    log = asyncio.run(run())
    assert log[-1] == "sync"
    assert log.count("send a") == 1
