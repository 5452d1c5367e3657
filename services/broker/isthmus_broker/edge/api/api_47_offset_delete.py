"""OffsetDelete, version 0: remove committed offsets of topics that the group does not read now."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.api.ask_groups import ask_groups
from isthmus_broker.edge.api.registry import handles

handles(ApiKey.OFFSET_DELETE)(ask_groups)
