"""AddRaftVoter, versions 0 and 1: an observer that has caught up becomes a voter (KIP-853)."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.ADD_RAFT_VOTER)(ask_controller)
