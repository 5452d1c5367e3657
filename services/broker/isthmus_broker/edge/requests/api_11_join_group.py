"""JoinGroup: become a member of a classic group; answered when the rebalance has everyone."""

from isthmus_broker.edge.requests.group_requests import answer_by_group_shards, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_group_shards
