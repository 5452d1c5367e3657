"""DeleteTopics, versions 1 to 6: by name, and since 6 by id as well."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.DELETE_TOPICS)(ask_controller)
