"""LeaveGroup, versions 0 to 5: leave a classic group; several members since 3, with a reason since 5."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.LEAVE_GROUP)(ask_groups)
