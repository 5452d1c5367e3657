"""DeleteGroups: remove groups that have no members, with their offsets."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
