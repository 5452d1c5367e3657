"""CreateTopics, versions 2 to 7: each topic in whole or not at all; the answer tells its id and settings since 5 and 7."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.CREATE_TOPICS)(ask_controller)
