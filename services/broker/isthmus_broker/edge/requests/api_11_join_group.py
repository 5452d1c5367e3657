"""JoinGroup, versions 0 to 9: become a member of a classic group; answered when the rebalance has everyone."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.JOIN_GROUP)(ask_groups)
