"""ConsumerGroupDescribe, versions 0 and 1: consumer groups, their members, assignments and targets."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.CONSUMER_GROUP_DESCRIBE)(ask_groups)
