"""OffsetFetch: how far groups have read; several groups since 8, topics by id since 10."""

from isthmus_broker.edge.requests.group_requests import answer_by_group_shards, refuse

__all__ = ["handle", "refuse"]

handle = answer_by_group_shards
