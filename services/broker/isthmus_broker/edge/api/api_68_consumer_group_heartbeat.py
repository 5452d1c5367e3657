"""ConsumerGroupHeartbeat, versions 0 and 1: all of KIP-848's group membership; regular expressions since 1."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.api.ask_groups import ask_groups
from isthmus_broker.edge.api.registry import handles

handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)(ask_groups)
