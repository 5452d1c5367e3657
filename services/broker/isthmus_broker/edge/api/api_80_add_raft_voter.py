"""AddRaftVoter, versions 0 and 1: an observer that has caught up becomes a voter (KIP-853)."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.api.ask_controller import ask_controller
from isthmus_broker.edge.api.registry import handles

handles(ApiKey.ADD_RAFT_VOTER)(ask_controller)
