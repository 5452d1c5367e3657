"""ConsumerGroupHeartbeat, versions 0 and 1: all of KIP-848's group membership; regular expressions since 1."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)(ask_groups)
