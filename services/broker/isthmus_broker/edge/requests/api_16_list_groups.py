"""ListGroups: every group this node coordinates, by state (4) and type (5)."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_every_shard

__all__ = ["handle", "refuse"]

handle = serve_by_every_shard
