"""From a request to its handler: unknown APIs and versions, handlers that take their time, and faults."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, Final

from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey
from isthmus_wire.errors import ErrorCode, WireError
from isthmus_wire.headers import encode_response_prefix
from isthmus_wire.messages import encode_response

from isthmus_broker.edge.quorum.raft_driver import RaftStopped
from isthmus_broker.edge.requests.registry import VERSIONS, Side, handler_of
from isthmus_broker.edge.requests.services import NodeServices
from isthmus_broker.edge.transport.connection import ConnectionRefused, Request

logger = logging.getLogger(__name__)

# The answer in version 0 to a version of ApiVersions that nobody knows: the versions of ApiVersions itself.
_UNSUPPORTED: Final = SimpleNamespace(
    error_code=ErrorCode.unsupported_version,
    api_keys=(
        SimpleNamespace(
            api_key=ApiKey.API_VERSIONS,
            min_version=KAFKA_VERSIONS[ApiKey.API_VERSIONS][0],
            max_version=KAFKA_VERSIONS[ApiKey.API_VERSIONS][1],
        ),
    ),
)


class Dispatcher:
    """Serves every request of the listeners of one side; a broker's handlers need `Services`."""

    def __init__(self, services: NodeServices, side: Side) -> None:
        self._services = services
        self._side = side
        self._versions: dict[int, tuple[int, int]] = {int(key): found for key, found in VERSIONS[side].items()}
        self._tasks: set[asyncio.Task[None]] = set()
        self.served: Counter[int] = Counter()
        """Requests by API key."""

    def serve(self, request: Request) -> None:
        """Call the handler. An API nobody serves closes the connection, as Kafka does it."""
        key, version = request.header.api_key, request.header.api_version
        handler = handler_of(key, self._side)
        if handler is None:
            raise ConnectionRefused(f"API key {key} is not served")
        lowest, highest = self._versions[key]
        if not lowest <= version <= highest:
            if key != ApiKey.API_VERSIONS:
                raise ConnectionRefused(
                    f"{ApiKey(key).name} version {version} is not served, {lowest} to {highest} are"
                )
            body = encode_response(key, 0, _UNSUPPORTED)
            prefix = encode_response_prefix(key, 0, request.header.correlation_id, len(body))
            request.connection.send(prefix, (body,))
            return
        self.served[key] += 1
        work = handler(self._services, request)
        if work is not None:
            # Its first step comes later, and by then what the client sent next may lie where the frame is now.
            request.frame = memoryview(bytes(request.frame))
            task = asyncio.get_running_loop().create_task(self._finish(request, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ConnectionRefused, WireError) as refusal:
            request.connection.close(f"it sent what is no request: {refusal}")
        except RaftStopped:
            request.connection.close("this node stops")
        except Exception:
            logger.exception("%s of %s failed", ApiKey(request.header.api_key).name, request.connection.peer)
            request.connection.close("of a fault of this node")
