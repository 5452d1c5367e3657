"""Dispatch of requests to their handlers: unknown APIs and versions, middleware, asynchronous handlers, and errors."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode, WireError
from isthmus_wire.headers import encode_response_prefix
from isthmus_wire.messages import encode_response

from isthmus_broker.edge.quorum.raft_driver import RaftStopped
from isthmus_broker.edge.requests.middleware import Middleware, authorizing, counting, wrapped
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.requests.table import TABLE, Api, Handler, Side, handler_of, refusal_of
from isthmus_broker.edge.transport.connection import ConnectionRefused, Request

logger = logging.getLogger(__name__)

_API_VERSIONS: Final = TABLE[ApiKey.API_VERSIONS].versions(Side.BROKER) or (0, 0)
# The response, in version 0, to an unknown version of ApiVersions: the versions of ApiVersions itself.
_UNSUPPORTED: Final = SimpleNamespace(
    error_code=ErrorCode.unsupported_version,
    api_keys=(
        SimpleNamespace(
            api_key=ApiKey.API_VERSIONS,
            min_version=_API_VERSIONS[0],
            max_version=_API_VERSIONS[1],
        ),
    ),
)


class _Route(NamedTuple):
    """An API that has been requested at least once."""

    lowest: int
    highest: int
    handler: Handler


class Dispatcher:
    """Serves every request of the broker listeners or of the controller listeners; a broker's handlers need `Services`."""

    def __init__(self, services: NodeServices, side: Side, middleware: Sequence[Middleware] = ()) -> None:
        """`middleware` runs before counting and authorisation."""
        self._services = services
        self._side = side
        self._routes: dict[int, _Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.served: Counter[int] = Counter()
        """Requests by API key."""
        authorization = authorizing(services.authorizer, self._refuse)
        self._middleware = (*middleware, counting(self.served), authorization)

    def serve(self, request: Request) -> None:
        """Call the handler. An API that is not served closes the connection, as in Kafka."""
        key, version = request.header.api_key, request.header.api_version
        route = self._routes.get(key) or self._new_route(key)
        if not route.lowest <= version <= route.highest:
            self._refuse_version(request, route)
            return
        work = route.handler(self._services, request)
        if work is not None:
            # The coroutine starts later, when the receive buffer may already contain the client's next request. Its copy is writable as
            # well: batches get their offsets in place.
            request.frame = memoryview(bytearray(request.frame))
            task = asyncio.get_running_loop().create_task(self._finish(request, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _new_route(self, key: int) -> _Route:
        api = TABLE.get(key)
        versions = None if api is None else api.versions(self._side)
        if api is None or versions is None:
            raise ConnectionRefused(f"API key {key} is not served")
        handler = wrapped(api, handler_of(key, self._side), self._middleware)
        route = self._routes[key] = _Route(*versions, handler)
        return route

    def _refuse_version(self, request: Request, route: _Route) -> None:
        key, version = request.header.api_key, request.header.api_version
        if key != ApiKey.API_VERSIONS:
            name = ApiKey(key).name
            raise ConnectionRefused(f"{name} version {version} is not served, {route.lowest} to {route.highest} are")
        body = encode_response(key, 0, _UNSUPPORTED)
        prefix = encode_response_prefix(key, 0, request.header.correlation_id, len(body))
        request.connection.send(prefix, (body,))

    def _refuse(self, api: Api, request: Request, error: ErrorCode) -> None:
        """Respond with the error in the API's own form. Close the connection if the API has no error for a whole request."""
        refuse = refusal_of(api, self._side)
        if refuse is None:
            raise ConnectionRefused(f"{request.principal} may not send {api.key.name}")
        refuse(request, error)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ConnectionRefused, WireError) as refusal:
            request.connection.close(f"malformed request: {refusal}")
        except RaftStopped:
            request.connection.close("the node is shutting down")
        except Exception:
            logger.exception("%s of %s failed", ApiKey(request.header.api_key).name, request.connection.peer)
            request.connection.close("internal error")
