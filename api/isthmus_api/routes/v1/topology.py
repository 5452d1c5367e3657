"""The map."""

from __future__ import annotations

from isthmus_api.core.topology import TopologyDocument
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call

routes = Routes("Topology", "/api/v1")


@routes.get("/topology")
async def get_topology(call: Call) -> TopologyDocument:
    """Get regions, clusters and the flows between them, from the latest snapshots."""
    return await call.parts.watch.document()
