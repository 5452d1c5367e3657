"""Every resource, a file each: `v3` in the shapes of Confluent's REST v3, `v1` our own."""

from isthmus_api.registry import Route, in_order
from isthmus_api.routes.v1 import audit, events, inventory, session, tasks, topology
from isthmus_api.routes.v3 import clusters, topics


def all_routes() -> list[Route]:
    """In the order in which they are tried."""
    groups = (session, inventory, topology, tasks, audit, events, clusters, topics)
    return in_order(group.routes for group in groups)
