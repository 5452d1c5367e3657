"""Runs the open tasks. A process holds a task by renewing its lease; when the holder is gone, another process resumes the task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from isthmus_model.clocks import WallClock
from pydantic import ValidationError

from isthmus_api.clusters.clients import Clusters
from isthmus_api.events import EventKind, Hub
from isthmus_api.limits import CLUSTER_SECONDS, TASK_LEASE_SECONDS, TASK_PAUSE_SECONDS, TASK_SECONDS_MAX, TASK_WIDTH
from isthmus_api.problems import Problem
from isthmus_api.store.work import Item, ItemState, Task, TaskState, Work
from isthmus_api.tasks.kinds import STEP_SECONDS, CreateTaskRequest, Settings
from isthmus_api.tasks.outcomes import Done, Failed, NotYet, Outcome, Tell

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Settled:
    outcome: Outcome
    item: Item


class Runner:
    """The tasks of this process."""

    def __init__(self, work: Work, clusters: Clusters, hub: Hub, now_ms: WallClock) -> None:
        self._work = work
        self._clusters = clusters
        self._hub = hub
        self._now_ms = now_ms
        self._owner = str(uuid4())
        self._running: dict[str, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    async def add(self, settings: Settings, actor: str) -> Task:
        """Add a task; raises Problem when its cluster is unknown or too many tasks are open."""
        await self._clusters.registered(settings.cluster_id)
        task_id = str(uuid4())
        stored = settings.model_dump(mode="json")
        await self._work.add(task_id, settings.kind, actor, stored, settings.items(), self._now_ms())
        self._news.set()
        return await self._tell(task_id)

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task; raises Problem when it does not exist or is finished."""
        if await self._work.task(task_id) is None:
            raise Problem(404, f"There is no task {task_id}.")
        if not await self._work.finish(task_id, TaskState.CANCELLED, "cancelled", self._now_ms()):
            raise Problem(409, f"Task {task_id} is finished already.")
        running = self._running.get(task_id)
        if running is not None:
            running.cancel()
        return await self._tell(task_id)

    async def run(self) -> None:
        """Resume open tasks without a holder until cancelled."""
        try:
            while True:
                for task in await self._work.open_tasks():
                    if task.task_id not in self._running and await self._claim(task.task_id):
                        self._start(task)
                self._news.clear()
                try:
                    async with asyncio.timeout(TASK_PAUSE_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            for running in self._running.values():
                running.cancel()

    def _start(self, task: Task) -> None:
        running = asyncio.create_task(self._hold(task))
        self._running[task.task_id] = running

        def ended(done: asyncio.Task[None]) -> None:
            del self._running[task.task_id]
            if not done.cancelled() and (error := done.exception()) is not None:
                logger.error("task %s was interrupted and will be resumed", task.task_id, exc_info=error)

        running.add_done_callback(ended)

    async def _claim(self, task_id: str) -> bool:
        now = self._now_ms()
        return await self._work.claim(task_id, self._owner, now, now + int(TASK_LEASE_SECONDS * 1000))

    async def _hold(self, task: Task) -> None:
        """Run a task while this process holds its lease."""
        worker = asyncio.create_task(self._do(task))
        try:
            while not worker.done() and await self._claim(task.task_id):
                await asyncio.wait({worker}, timeout=TASK_LEASE_SECONDS / 4)
            if worker.done():
                worker.result()
        finally:
            worker.cancel()

    async def _do(self, task: Task) -> None:
        try:
            settings = CreateTaskRequest.model_validate(task.input).root
        except ValidationError:
            await self._finish(task.task_id, TaskState.FAILED, "its settings are not valid in this version")
            return
        said = ""
        while pending := await self._work.items(task.task_id, ItemState.PENDING, most=TASK_WIDTH):
            if self._now_ms() > task.created_ms + TASK_SECONDS_MAX * 1000:
                await self._finish(task.task_id, TaskState.FAILED, f"not finished after {TASK_SECONDS_MAX} s")
                return
            settled = await asyncio.gather(*(self._step(task.task_id, settings, item) for item in pending))
            outcomes, waiting = _sorted(settled)
            if outcomes or waiting != said:
                said = waiting
                await self._work.note(task.task_id, outcomes, waiting, self._now_ms())
                await self._tell(task.task_id)
            if not outcomes:
                await asyncio.sleep(TASK_PAUSE_SECONDS)
        counted = await self._work.task(task.task_id)
        assert counted is not None
        if counted.failed:
            await self._finish(task.task_id, TaskState.FAILED, f"{counted.failed} of {counted.total} items failed")
        else:
            await self._finish(task.task_id, TaskState.DONE, "")

    async def _step(self, task_id: str, settings: Settings, item: Item) -> _Settled:
        try:
            seconds = STEP_SECONDS.get(settings.kind, CLUSTER_SECONDS)
            async with self._clusters.use(settings.cluster_id, seconds) as client, self._noting(task_id) as tell:
                return _Settled(await settings.step(client, dict(item.item), tell), item)
        except Problem as problem:
            # An unreachable cluster comes back, and the step is repeated.
            outcome = NotYet(problem.message) if problem.status >= 500 else Failed(problem.message)
            return _Settled(outcome, item)

    @asynccontextmanager
    async def _noting(self, task_id: str) -> AsyncIterator[Tell]:
        """Record and publish a step's progress messages within the block."""
        words: asyncio.Queue[str | None] = asyncio.Queue()

        async def note() -> None:
            said = ""
            while (word := await words.get()) is not None:
                if word != said and words.empty():
                    said = word
                    await self._work.note(task_id, {}, word, self._now_ms())
                    await self._tell(task_id)

        noting = asyncio.create_task(note())
        try:
            yield words.put_nowait
        finally:
            words.put_nowait(None)
            await noting

    async def _finish(self, task_id: str, state: TaskState, message: str) -> None:
        if await self._work.finish(task_id, state, message, self._now_ms()):
            await self._tell(task_id)

    async def _tell(self, task_id: str) -> Task:
        task = await self._work.task(task_id)
        assert task is not None
        names = ("task_id", "kind", "state", "message", "total", "done", "failed")
        self._hub.publish(EventKind.TASK, {name: getattr(task, name) for name in names})
        return task


def _sorted(settled: Iterable[_Settled]) -> tuple[dict[int, tuple[ItemState, str]], str]:
    """Record the outcomes of items and the task's message."""
    outcomes: dict[int, tuple[ItemState, str]] = {}
    waiting = ""
    for one in settled:
        match one.outcome:
            case Done(message):
                outcomes[one.item.position] = (ItemState.DONE, message)
            case Failed(message):
                outcomes[one.item.position] = (ItemState.FAILED, message)
            case NotYet(message):
                waiting = waiting or message
    return outcomes, waiting
