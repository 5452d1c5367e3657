"""Work that starts again after a failure ends when it is cancelled, whatever fails meanwhile."""

import asyncio
from contextlib import suppress

import pytest
from isthmus_service import restarts
from isthmus_service.restarts import run_again


async def _fails_as_it_is_cancelled(begun: asyncio.Event) -> None:
    try:
        begun.set()
        await asyncio.Event().wait()
    finally:
        raise ValueError("cannot end")


def test_a_failure_during_the_cancellation_does_not_undo_it() -> None:
    """The task group raised the failure, the loop took it for one of many, and a mirror continued after SIGTERM."""

    async def main() -> bool:
        begun = asyncio.Event()

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(_fails_as_it_is_cancelled(begun))

        task = asyncio.create_task(run_again("work", work))
        await begun.wait()
        task.cancel()
        await asyncio.wait((task,), timeout=2)
        ended = task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return ended

    assert asyncio.run(main())


def test_work_that_fails_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "RESTART_SECONDS", 0.0)
    runs = []

    async def main() -> None:
        enough = asyncio.Event()

        async def work() -> None:
            runs.append(1)
            if len(runs) == 3:
                enough.set()
            raise ValueError("once more")

        task = asyncio.create_task(run_again("work", work))
        await enough.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(runs) >= 3
