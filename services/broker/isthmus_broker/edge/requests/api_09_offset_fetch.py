"""OffsetFetch, versions 1 to 10: how far groups have read; several groups since 8, topics by id since 10."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.OFFSET_FETCH)(ask_groups)
