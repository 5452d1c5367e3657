"""OffsetCommit, versions 2 to 10: write down how far a group has read; topics by id since 10."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.OFFSET_COMMIT)(ask_groups)
