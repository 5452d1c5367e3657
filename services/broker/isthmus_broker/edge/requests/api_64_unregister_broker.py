"""UnregisterBroker, version 0: a broker is gone for good."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.UNREGISTER_BROKER)(ask_controller)
