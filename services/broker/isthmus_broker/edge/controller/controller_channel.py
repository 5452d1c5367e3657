"""The way to the active controller, wherever it is: every change of the cluster's metadata that this node wants goes through here."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import WireError

from isthmus_broker.core.metadata.refusals import says_not_controller
from isthmus_broker.edge.controller.active_controller import ActiveController
from isthmus_broker.edge.controller.controller import NotController

if TYPE_CHECKING:
    from isthmus_client.connection import Connection

ASK_SECONDS: Final = 30.0
"""How long an active controller is looked for and waited for; then the asker is told that there is none."""
_RETRY_SECONDS: Final = 0.05
_LAST_WITH_NAMES: Final = 5
CLIENT_ID: Final = "isthmus-controller-channel"


class ControllerUnreachable(Exception):
    """No active controller answered in time. What was asked may have happened all the same."""


class ControllerChannel:
    """Asks the active controller: in this process, if this node is it, else over one connection of its own.

    A controller that answers as none, or is lost while it works, is asked again, or the next one is: what was asked may then happen twice,
    as with Kafka's channels.
    """

    def __init__(self, active: ActiveController, place: Callable[[], Endpoint | None]) -> None:
        """`place` tells where the leader of the quorum is, if that is known."""
        self._active = active
        self._place = place
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._changed = asyncio.Event()

    async def ask(self, request: Any, *, seconds: float = ASK_SECONDS) -> Any:
        """The response to a request of its API's highest version, in the class of that version; raises ControllerUnreachable."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            self._changed.clear()
            try:
                if self._active.is_ready:
                    return await self._active.answer(request)
                return await self._ask_remote(request, deadline - loop.time())
            except NotController as refusal:
                why: Exception = refusal
            left = deadline - loop.time()
            if left <= 0:
                raise ControllerUnreachable(str(why)) from why
            try:
                async with asyncio.timeout(min(_RETRY_SECONDS, left)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def leader_changed(self) -> None:
        """Somebody else leads, or this node is ready to: whoever waits tries again, and nothing more is hoped for from the last one."""
        self._changed.set()
        connection = self._connection
        if connection is not None and (self._active.is_ready or self._place() not in (None, connection.endpoint)):
            self.close()

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _ask_remote(self, request: Any, seconds: float) -> Any:
        place = self._place()
        if place is None:
            raise NotController("no leader of the quorum is known")
        from isthmus_client.errors import ClientError
        from isthmus_client.versions import NEWEST

        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected(place)
                # Topics named the old way have no place in the newest DeleteTopics.
                newest = _LAST_WITH_NAMES if getattr(request, "topic_names", ()) else NEWEST
                response = await connection.ask(ApiKey(request.__api_key__), request, seconds=seconds, at_most=newest)
        except (ClientError, WireError, TimeoutError) as error:
            raise NotController(str(error) or "the active controller did not answer in time") from error
        if says_not_controller(response):
            raise NotController(f"{connection.name} is not the active controller")
        return response

    async def _connected(self, place: Endpoint) -> "Connection":
        from isthmus_client.connection import Connection

        async with self._opening:
            connection = self._connection
            if connection is None or connection.closed or connection.endpoint != place:
                self.close()
                connection = self._connection = await Connection.open(place, CLIENT_ID)
            return connection
