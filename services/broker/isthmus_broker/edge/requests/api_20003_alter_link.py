"""AlterLink, version 0, an API of our own: settings of a link."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ALTER_LINK)(ask_controller)
