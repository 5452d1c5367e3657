"""ListPartitionReassignments, version 0: what is on its way, as the active controller has it."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.LIST_PARTITION_REASSIGNMENTS)(ask_controller)
