"""Heartbeat: a member of a classic group is alive, and learns of rebalances."""

from isthmus_broker.edge.requests.group_requests import answer_by_group_shards, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_group_shards
