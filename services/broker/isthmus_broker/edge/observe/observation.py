"""Metrics, health and lag samples of a node, as configured. Libraries are imported only when one of them is enabled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from isthmus_broker.core.config.definitions.own import HTTP_LISTEN, SAMPLES_INTERVAL
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.edge.observe.node_view import NodeView
from isthmus_broker.edge.requests.services import Services

if TYPE_CHECKING:
    from isthmus_model.endpoints import Endpoint
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector


class Observation:
    """Metrics and health are served from the start, so that a node that is not ready can report why; samples start once it serves
    clients."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._open = AsyncExitStack()
        self._registry: CollectorRegistry | None = None

    async def serve(self, view: NodeView, not_ready: Callable[[], str]) -> None:
        """Serve metrics and health over HTTP if a port is set; raises OSError when the port is taken."""
        listen = self._config.values[HTTP_LISTEN]
        assert isinstance(listen, str)
        if not listen:
            return
        from isthmus_model.addresses import parse_address
        from isthmus_service.http import observed
        from prometheus_client import CollectorRegistry

        from isthmus_broker.edge.observe.metrics import NodeMetrics

        self._registry = CollectorRegistry()
        self._registry.register(NodeMetrics(view))
        await self._open.enter_async_context(observed(parse_address(listen), self._registry, not_ready))

    def register(self, collector: Collector) -> None:
        """Add the metrics of another role of this node, if metrics are served."""
        if self._registry is not None:
            self._registry.register(collector)

    def sample(self, services: Services, endpoint: Endpoint) -> None:
        """Write lag samples at the configured interval, through this endpoint of the node itself."""
        interval_ms = self._config.values[SAMPLES_INTERVAL]
        assert isinstance(interval_ms, int)
        if not interval_ms:
            return
        from isthmus_broker.edge.observe.samples import Sampler

        sampler = Sampler(services, endpoint, interval_ms)
        sampler.start()
        self._open.push_async_callback(sampler.stop)

    async def stop(self) -> None:
        """Stop serving and sampling."""
        await self._open.aclose()
