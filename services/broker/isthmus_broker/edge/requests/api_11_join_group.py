"""JoinGroup: become a member of a classic group. The response follows when all members have joined the rebalance."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
