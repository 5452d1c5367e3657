"""AlterPartitionReassignments, versions 0 and 1: partitions move to other replicas, or stay after all."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.api.ask_controller import ask_controller
from isthmus_broker.edge.api.registry import handles

handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS)(ask_controller)
