"""The way to the active controller, wherever it is: every change of the cluster's metadata that this node wants goes through here."""

from collections.abc import Callable
from typing import Any, Final

from isthmus_broker.core.metadata.controller import decide
from isthmus_broker.core.metadata.result import ControllerContext
from isthmus_broker.edge.drive.controller import Controller, NotController

ASK_SECONDS: Final = 30.0
"""How long an active controller is looked for and waited for; then the asker is told that there is none."""


class ControllerUnreachable(Exception):
    """No active controller answered in time. What was asked may have happened all the same."""


class ControllerChannel:
    """Asks the active controller."""

    def __init__(self, controller: Controller, context: Callable[[], ControllerContext]) -> None:
        self._controller = controller
        self._context = context

    async def ask(self, request: Any, *, seconds: float = ASK_SECONDS) -> Any:
        """The response to a request of its API's highest version, in the class of that version; raises ControllerUnreachable."""
        try:
            return await self._controller.run(lambda image: decide(image, request, self._context()))
        except NotController as refusal:
            raise ControllerUnreachable(str(refusal)) from refusal
