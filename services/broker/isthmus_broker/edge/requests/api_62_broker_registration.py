"""BrokerRegistration, versions 0 to 4: a broker's process announces itself, and learns its epoch."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.BROKER_REGISTRATION)(ask_controller)
