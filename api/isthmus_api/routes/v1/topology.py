"""The map."""

from __future__ import annotations

from isthmus_api.registry import Routes
from isthmus_api.request_context import Call
from isthmus_api.topology import TopologyDocument

routes = Routes("Topology", "/api/v1")


@routes.get("/topology")
async def get_topology(call: Call) -> TopologyDocument:
    """Get regions, clusters and the flows between them, as they were last seen."""
    return await call.parts.watch.document()
