"""The channel to the active controller, local or remote: every change of the cluster's metadata that this node requests uses it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import WireError

from isthmus_broker.core.metadata.refusals import says_not_controller
from isthmus_broker.edge.controller.active_controller import ActiveController
from isthmus_broker.edge.controller.controller import NotController
from isthmus_broker.edge.quorum.raft_driver import RaftStopped

if TYPE_CHECKING:
    from isthmus_client.connection import Connection

_RETRY_SECONDS: Final = 0.05
_RETRY_SECONDS_MAX: Final = 1.0
_RETRY_SHARE: Final = 0.1
"""The pause before a retry, as a share of the time for which there has been no active controller."""
_LAST_WITH_NAMES: Final = 5
CLIENT_ID: Final = "isthmus-controller-channel"


class ControllerUnreachable(Exception):
    """No active controller responded in time. The request may have taken effect anyway."""


class _NoResponse(Exception):
    """An attempt failed after it may have reached the controller."""


class ControllerChannel:
    """Sends requests to the active controller: in this process, if this node is active, else over one connection of its own.

    A request is retried if the controller is not active or is lost while it works. It may then take effect twice, as with Kafka's channels.
    """

    def __init__(self, active: ActiveController, place: Callable[[], Endpoint | None], timeout_ms: int) -> None:
        """`place` returns the endpoint of the quorum's leader, if it is known.

        The timeout bounds one attempt, and all attempts of a request that has no timeout of its own; ControllerUnreachable follows.
        """
        self._seconds = timeout_ms / 1000
        self._active = active
        self._place = place
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._changed = asyncio.Event()
        self._failing_since: float | None = None

    async def send(
        self, request: Any, *, seconds: float | None = None, on_lost: Callable[[], None] = lambda: None
    ) -> Any:
        """The response to a request of its API's highest version, in the class of that version; raises ControllerUnreachable.

        `on_lost` is called for every attempt without a response: its copy of the request may take effect later.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._seconds if seconds is None else seconds)
        while True:
            self._changed.clear()
            try:
                response = await self._attempt(request, min(deadline - loop.time(), self._seconds))
                self._failing_since = None
                return response
            except (NotController, RaftStopped) as refusal:
                why: Exception = refusal
            except _NoResponse as lost:
                why = lost
                on_lost()
            left = deadline - loop.time()
            if left <= 0:
                raise ControllerUnreachable(str(why)) from why
            try:
                async with asyncio.timeout(min(self._pause(loop.time()), left)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _pause(self, now: float) -> float:
        """The pause before a retry, which a change of leader ends."""
        if self._failing_since is None:
            self._failing_since = now
        return min(max(_RETRY_SECONDS, _RETRY_SHARE * (now - self._failing_since)), _RETRY_SECONDS_MAX)

    def leader_changed(self) -> None:
        """The active controller changed: waiting requests are retried, and the connection to the previous one is closed.

        It is closed too if the same node leads again: the node may have been restarted, and the connection be dead.
        """
        self._failing_since = None
        self._changed.set()
        if self._active.is_ready or self._place() is not None:
            self.close()

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _attempt(self, request: Any, seconds: float) -> Any:
        if self._active.is_ready:
            return await self._active.decide(request)
        return await self._send_remote(request, seconds)

    async def _send_remote(self, request: Any, seconds: float) -> Any:
        place = self._place()
        if place is None:
            raise NotController("the leader of the quorum is unknown")
        from isthmus_client.errors import ClientError
        from isthmus_client.versions import NEWEST

        connection = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected(place)
                # Topics named the old way have no place in the newest DeleteTopics.
                newest = _LAST_WITH_NAMES if getattr(request, "topic_names", ()) else NEWEST
                response = await connection.request(
                    ApiKey(request.__api_key__), request, seconds=seconds, at_most=newest
                )
        except (ClientError, WireError, TimeoutError) as error:
            if connection is self._connection:
                self.close()  # whatever waits on it would wait as long
            why = str(error) or "the active controller did not respond in time"
            raise (NotController(why) if connection is None else _NoResponse(why)) from error
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
