"""ListGroups, versions 0 to 5: every group this node coordinates, by state (4) and type (5)."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_every_shard
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.LIST_GROUPS)(ask_every_shard)
