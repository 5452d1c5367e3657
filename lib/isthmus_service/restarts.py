"""Work that starts again after it has failed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

logger = logging.getLogger(__name__)

RESTART_SECONDS: Final = 5.0


async def run_again(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run until cancelled; a failure is logged, and the work starts again after a pause.

    A task group raises the failure of a task that it cancels in place of its own cancellation, which would then be lost.
    """
    task = asyncio.current_task()
    assert task is not None
    while True:
        try:
            await run()
        except Exception as error:
            if task.cancelling():
                logger.info("%s failed as it was stopped: %r", name, error)
                raise asyncio.CancelledError from error
            logger.exception("%s failed and restarts", name)
        await asyncio.sleep(RESTART_SECONDS)
