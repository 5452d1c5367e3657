"""AssignReplicasToDirs, version 0: a broker tells which of its directories hold which replicas (KIP-858)."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ASSIGN_REPLICAS_TO_DIRS)(ask_controller)
