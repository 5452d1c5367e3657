"""ControllerRegistration, version 0: a controller tells where it listens and what it supports (KIP-919)."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.CONTROLLER_REGISTRATION)(ask_controller)
