"""ConsumerGroupDescribe: consumer groups, their members, assignments and targets."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
