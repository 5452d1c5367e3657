"""ConsumerGroupDescribe: consumer groups, their members, assignments and targets."""

from isthmus_broker.edge.requests.group_requests import refuse, serve_consumer_protocol

__all__ = ["handle", "refuse"]

handle = serve_consumer_protocol
