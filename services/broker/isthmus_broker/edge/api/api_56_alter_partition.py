"""AlterPartition, versions 2 and 3: a leader changes the in-sync replicas of its partitions."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.api.ask_controller import ask_controller
from isthmus_broker.edge.api.registry import handles

handles(ApiKey.ALTER_PARTITION)(ask_controller)
