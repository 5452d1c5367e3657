"""RemoveRaftVoter, version 0: a voter becomes an observer, or has left for good (KIP-853)."""

from isthmus_wire.apis import ApiKey

from isthmus_broker.edge.requests.ask_controller import ask_controller
from isthmus_broker.edge.requests.registry import handles

handles(ApiKey.REMOVE_RAFT_VOTER)(ask_controller)
