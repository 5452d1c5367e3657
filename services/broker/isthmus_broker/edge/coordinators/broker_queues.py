"""Requests to other brokers, collected: what waits for a broker is sent as one request, with one request in flight to each broker."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from isthmus_model.endpoints import Endpoint
from isthmus_wire.errors import WireError

from isthmus_broker.edge.background import background

if TYPE_CHECKING:  # a node that is alone needs no client
    import asyncio

    from isthmus_client.connection import Connection

Item = TypeVar("Item")


class _Queue(Generic[Item]):
    """What waits for one broker."""

    __slots__ = ("connection", "items", "task")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.connection: Connection | None = None
        self.task: asyncio.Task[None] | None = None


class BrokerQueues(Generic[Item]):
    """Queues by broker id."""

    def __init__(
        self,
        client_id: str,
        address_of: Callable[[int], Endpoint | None],
        response_seconds: float,
        exchange: "Callable[[Connection, list[Item]], Awaitable[None]]",
        failed: Callable[[list[Item]], None],
    ) -> None:
        """`exchange` sends the items as one request, and handles the response; `failed` handles items without a response."""
        self._client_id = client_id
        self._address_of = address_of
        self._response_seconds = response_seconds
        self._exchange = exchange
        self._failed = failed
        self._queues: dict[int, _Queue[Item]] = {}

    def add(self, broker: int, item: Item) -> None:
        """Send the item to the broker with its next request."""
        queue = self._queues.setdefault(broker, _Queue())
        queue.items.append(item)
        if queue.task is None:
            queue.task = background(self._send(broker, queue))

    def waiting(self, broker: int) -> list[Item]:
        """The items that wait for the next request to the broker; the caller may remove some."""
        queue = self._queues.get(broker)
        return [] if queue is None else queue.items

    def take_all(self) -> Iterable[Item]:
        """Remove and return all items that are not in a request."""
        for queue in self._queues.values():
            taken, queue.items = queue.items, []
            yield from taken

    def disconnect(self, broker: int) -> None:
        """Close the connection to a broker that is gone or has been restarted: what is in flight fails now, not at its timeout."""
        queue = self._queues.get(broker)
        if queue is not None:
            _close(queue)

    def stop(self) -> None:
        """Close every connection."""
        for queue in self._queues.values():
            if queue.task is not None:
                queue.task.cancel()
            _close(queue)
        self._queues.clear()

    async def _send(self, broker: int, queue: _Queue[Item]) -> None:
        """Send until nothing waits. The connection stays open for what follows."""
        from isthmus_client.errors import ClientError

        while queue.items:
            items: list[Item] = []
            try:
                connection = await self._connected(broker, queue)
                items, queue.items = queue.items, []
                if items:
                    await self._exchange(connection, items)
            except (ClientError, WireError, TimeoutError):
                _close(queue)
                waiting, queue.items = queue.items, []
                self._failed(items + waiting)
        queue.task = None

    async def _connected(self, broker: int, queue: _Queue[Item]) -> "Connection":
        from isthmus_client.connection import Connection
        from isthmus_client.errors import ConnectionFailed

        address = self._address_of(broker)
        if address is None:
            raise ConnectionFailed(f"broker {broker} is not registered, or fenced")
        connection = queue.connection
        if connection is None or connection.closed or connection.endpoint != address:
            _close(queue)
            connection = queue.connection = await Connection.open(address, self._client_id, self._response_seconds)
        return connection


def _close(queue: _Queue[Item]) -> None:
    if queue.connection is not None:
        queue.connection.close()
    queue.connection = None
