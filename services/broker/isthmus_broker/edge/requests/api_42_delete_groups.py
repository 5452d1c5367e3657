"""DeleteGroups, versions 0 to 2: remove groups that have no members, with their offsets."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.DELETE_GROUPS)(ask_groups)
