"""OffsetDelete, version 0: remove committed offsets of topics that the group does not read now."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.OFFSET_DELETE)(ask_groups)
