"""What a node's settings ask it to tell, begun and ended with the node. Its libraries are imported only when something is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

from isthmus_broker.core.config.definitions.own import HTTP_LISTEN, SAMPLES_INTERVAL
from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.edge.controller.metadata_quorum import Quorum
from isthmus_broker.edge.replication.manager import ReplicaManager
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.listener import Listener

if TYPE_CHECKING:
    from isthmus_client.connection import Address
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector


class Watched(NamedTuple):
    """The parts of a node that are told about; `replicas` is None for a controller alone."""

    node_id: int
    quorum: Quorum
    listeners: Sequence[Listener]
    served: Callable[[], Counter[int]]
    image: Callable[[], ClusterImage]
    replicas: ReplicaManager | None


class Observation:
    """Metrics and health from the beginning, so that a node which waits can be asked what for; samples once it serves."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._open = AsyncExitStack()
        self._registry: CollectorRegistry | None = None

    async def serve(self, watched: Watched, not_ready: Callable[[], str]) -> None:
        """Answer over HTTP where the settings say; raises OSError when the port is taken."""
        listen = self._config.values[HTTP_LISTEN]
        assert isinstance(listen, str)
        if not listen:
            return
        from isthmus_client.client import parse_bootstrap
        from isthmus_service.http import observed
        from prometheus_client import CollectorRegistry

        from isthmus_broker.edge.observe.metrics import NodeMetrics

        self._registry = CollectorRegistry()
        self._registry.register(NodeMetrics(watched))
        await self._open.enter_async_context(observed(parse_bootstrap(listen)[0], self._registry, not_ready))

    def also_tell(self, collector: Collector) -> None:
        """Metrics of another role of this node, where any are told."""
        if self._registry is not None:
            self._registry.register(collector)

    def sample(self, services: Services, address: Address) -> None:
        """Write samples as often as the settings say, through this address of the node itself."""
        interval_ms = self._config.values[SAMPLES_INTERVAL]
        assert isinstance(interval_ms, int)
        if not interval_ms:
            return
        from isthmus_broker.edge.observe.samples import Sampler

        sampler = Sampler(services, address, interval_ms)
        sampler.start()
        self._open.push_async_callback(sampler.stop)

    async def stop(self) -> None:
        """No more of either."""
        await self._open.aclose()
