"""Heartbeat: a member of a classic group is alive, and learns of rebalances."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
