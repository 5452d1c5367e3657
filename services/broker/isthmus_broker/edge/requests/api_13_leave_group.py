"""LeaveGroup: leave a classic group; several members since 3, with a reason since 5."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
