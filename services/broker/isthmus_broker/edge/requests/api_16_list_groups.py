"""ListGroups: every group this node coordinates, by state (4) and type (5)."""

from isthmus_broker.edge.requests.group_requests import answer_by_every_shard, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_every_shard
