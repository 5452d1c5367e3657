"""RaiseLeaderEpochs, version 0, an API of our own: leader epochs of mirror topics, kept above the source's."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.RAISE_LEADER_EPOCHS)(ask_controller)
