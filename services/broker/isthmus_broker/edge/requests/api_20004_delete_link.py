"""DeleteLink, version 0, an API of our own: the end of a link, and with force of what it still copies."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.DELETE_LINK)(ask_controller)
