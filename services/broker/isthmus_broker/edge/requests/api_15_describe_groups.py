"""DescribeGroups, versions 0 to 6: classic groups, their members and assignments."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_groups import ask_groups
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.DESCRIBE_GROUPS)(ask_groups)
