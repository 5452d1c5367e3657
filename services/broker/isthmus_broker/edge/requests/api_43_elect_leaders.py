"""ElectLeaders, versions 0 to 2: preferred replicas lead again, or, since 1, somebody leads whatever is lost."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ELECT_LEADERS)(ask_controller)
