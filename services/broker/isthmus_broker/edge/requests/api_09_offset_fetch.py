"""OffsetFetch: the committed offsets of groups; several groups since 8, topics by id since 10."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_by_group_shards

__all__ = ["handle", "refuse"]

handle = serve_by_group_shards
