"""ConsumerGroupHeartbeat: all of KIP-848's group membership; regular expressions since 1."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_consumer_protocol

__all__ = ["handle", "refuse"]

handle = serve_consumer_protocol
