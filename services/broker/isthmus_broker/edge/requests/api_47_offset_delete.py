"""OffsetDelete: remove committed offsets of topics to which the group is not subscribed."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
