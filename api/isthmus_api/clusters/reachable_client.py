"""A client that avoids unreachable brokers, and fails immediately when all of them are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isthmus_client.client import Client
from isthmus_client.errors import ConnectionFailed
from isthmus_model.endpoints import Endpoint


class ReachableClient(Client):
    """A client that is informed of unreachable brokers; `disconnect` ends requests that wait for one."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        is_unreachable: Callable[[Endpoint], bool],
        *,
        client_id: str,
        operation_seconds: float,
    ) -> None:
        super().__init__(bootstrap, client_id=client_id, operation_seconds=operation_seconds)
        self._is_unreachable = is_unreachable

    def endpoints(self) -> list[Endpoint]:
        """The reachable brokers; raises ConnectionFailed when there are none."""
        reachable = [endpoint for endpoint in super().endpoints() if not self._is_unreachable(endpoint)]
        if not reachable:
            raise ConnectionFailed("none of its brokers is reachable")
        return reachable
