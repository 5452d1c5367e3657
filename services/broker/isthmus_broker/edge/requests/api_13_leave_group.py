"""LeaveGroup: leave a classic group; several members since 3, with a reason since 5."""

from isthmus_broker.edge.requests.group_requests import answer_by_group_shards, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_group_shards
