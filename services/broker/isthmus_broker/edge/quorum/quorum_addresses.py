"""Where the nodes of the quorum are reached: as the voter set says, as the settings say, and as the leader has told."""

from collections.abc import Callable
from typing import Final

from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.raft.types import VoterEndpoint, VoterSet

FIRST_BOOTSTRAP_ID: Final = -2
"""The ids of controller.quorum.bootstrap.servers, whose node ids are not known, count down from here."""


def bootstrap_ids(config: NodeConfig) -> tuple[int, ...]:
    """One made-up node id for each bootstrap server."""
    return tuple(FIRST_BOOTSTRAP_ID - position for position in range(len(config.bootstrap_servers)))


class QuorumAddresses:
    """Host and port by node id."""

    def __init__(self, config: NodeConfig, voters: Callable[[], VoterSet]) -> None:
        self._listener = config.listeners.controller_names[0]
        self._bootstrap = dict(zip(bootstrap_ids(config), config.bootstrap_servers, strict=True))
        self._voters = voters
        self._leader: tuple[int, Endpoint] | None = None

    def learn(self, node_id: int, host: str, port: int) -> None:
        """The latest leader has told where it is, or somebody else has: it may be no voter that this node knows of."""
        self._leader = (node_id, Endpoint(host, port))

    def find(self, node_id: int) -> Endpoint | None:
        """None for a node that nobody has told of."""
        if node_id in self._bootstrap:
            return Endpoint(*self._bootstrap[node_id])
        voter = self._voters().find(node_id)
        is_static = voter is not None and voter.key.directory_id is None
        # What this node's own settings say of a voter comes first: each region may reach it by another way.
        if self._leader is not None and self._leader[0] == node_id and not is_static:
            return self._leader[1]
        endpoint = self._chosen(voter.endpoints) if voter is not None else None
        return None if endpoint is None else Endpoint(endpoint.host, endpoint.port)

    def _chosen(self, endpoints: tuple[VoterEndpoint, ...]) -> VoterEndpoint | None:
        """The endpoint of the listener that this node talks to controllers by, else the first."""
        named = (endpoint for endpoint in endpoints if endpoint.name == self._listener)
        return next(named, endpoints[0] if endpoints else None)
