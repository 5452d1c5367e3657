"""Heartbeat, versions 0 to 4: a member of a classic group is alive, and learns of rebalances."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.HEARTBEAT)(ask_groups)
