"""DeleteGroups: remove groups that have no members, with their offsets."""

from isthmus_broker.edge.requests.group_requests import answer_by_group_shards, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_group_shards
