"""CreatePartitions, versions 0 to 3: add partitions to topics, placed by the controller or as asked."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.api.ask_controller import ask_controller
from isthmus_broker.edge.api.registry import handles

handles(ApiKey.CREATE_PARTITIONS)(ask_controller)
