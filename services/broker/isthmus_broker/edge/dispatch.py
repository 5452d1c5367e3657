"""From a request to its handler: unknown APIs and versions, handlers that take their time, and faults."""

import asyncio
import logging
from collections.abc import Coroutine

from isthmus_wire.apis import KAFKA_VERSIONS, ApiKey
from isthmus_wire.errors import WireError
from isthmus_wire.headers import encode_response_prefix
from isthmus_wire.messages import encode_response

from isthmus_broker.edge.api.api_18_api_versions import unsupported_version
from isthmus_broker.edge.api.registry import HANDLERS
from isthmus_broker.edge.net.connection import ConnectionRefused, Request
from isthmus_broker.edge.services import Services

logger = logging.getLogger(__name__)


class Dispatcher:
    """Serves every request of every listener."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, request: Request) -> None:
        """Call the handler. An API nobody serves closes the connection, as Kafka does it."""
        key, version = request.header.api_key, request.header.api_version
        handler = HANDLERS.get(key)
        if handler is None:
            raise ConnectionRefused(f"API key {key} is not served")
        lowest, highest = KAFKA_VERSIONS[ApiKey(key)]
        if not lowest <= version <= highest:
            if key != ApiKey.API_VERSIONS:
                raise ConnectionRefused(
                    f"{ApiKey(key).name} version {version} is not served, {lowest} to {highest} are"
                )
            body = encode_response(key, 0, unsupported_version())
            prefix = encode_response_prefix(key, 0, request.header.correlation_id, len(body))
            request.connection.send(prefix, (body,))
            return
        work = handler(self._services, request)
        if work is not None:
            task = asyncio.get_running_loop().create_task(self._finish(request, work))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: Request, work: Coroutine[None, None, None]) -> None:
        """A handler that waits decodes its request before its first await: the frame is gone afterwards."""
        try:
            await work
        except (ConnectionRefused, WireError) as refusal:
            request.connection.close(f"it sent what is no request: {refusal}")
        except Exception:
            logger.exception("%s of %s failed", ApiKey(request.header.api_key).name, request.connection.peer)
            request.connection.close("of a fault of this node")
