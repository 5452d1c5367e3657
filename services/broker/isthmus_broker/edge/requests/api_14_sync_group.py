"""SyncGroup, versions 0 to 5: the leader's assignment in, each member's part out."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.SYNC_GROUP)(ask_groups)
