"""StreamsGroupDescribe: streams groups, their topologies, members, assignments and targets."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_streams_protocol

__all__ = ["handle", "refuse"]

handle = serve_streams_protocol
