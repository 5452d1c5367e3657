"""UpdateFeatures, versions 0 to 2: the levels of features go up or down, all of them or none."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.UPDATE_FEATURES)(ask_controller)
