"""AlterPartitionReassignments, versions 0 and 1: partitions move to other replicas, or stay after all."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS)(ask_controller)
