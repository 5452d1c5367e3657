"""ConsumerGroupDescribe: consumer groups, their members, assignments and targets."""

from isthmus_broker.edge.requests.group_requests import answer_by_group_shards, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_group_shards
