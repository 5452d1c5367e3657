"""OffsetCommit: record the offsets that a group has processed; topics by id since 10."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
