"""Endpoints of the quorum's nodes: from the voter set, from the settings, and from the leader's announcements."""

from collections.abc import Callable
from typing import Final

from isthmus_model.endpoints import Endpoint

from isthmus_broker.core.config.node_config import NodeConfig
from isthmus_broker.core.raft.types import VoterEndpoint, VoterSet

FIRST_BOOTSTRAP_ID: Final = -2
"""The unknown node ids of controller.quorum.bootstrap.servers are numbered downwards from here."""


def bootstrap_ids(config: NodeConfig) -> tuple[int, ...]:
    """One artificial node id for each bootstrap server."""
    return tuple(FIRST_BOOTSTRAP_ID - position for position in range(len(config.bootstrap_servers)))


class QuorumAddresses:
    """Host and port by node id."""

    def __init__(self, config: NodeConfig, voters: Callable[[], VoterSet]) -> None:
        self._listener = config.listeners.controller_names[0]
        self._bootstrap = dict(zip(bootstrap_ids(config), config.bootstrap_servers, strict=True))
        self._voters = voters
        self._leader: tuple[int, Endpoint] | None = None

    def learn(self, node_id: int, host: str, port: int) -> None:
        """Record the latest leader's endpoint: it may not be a voter that this node knows of."""
        self._leader = (node_id, Endpoint(host, port))

    def find(self, node_id: int) -> Endpoint | None:
        """The endpoint of a node, if known."""
        if node_id in self._bootstrap:
            return Endpoint(*self._bootstrap[node_id])
        voter = self._voters().find(node_id)
        is_static = voter is not None and voter.key.directory_id is None
        # The node's own settings take precedence: each region may reach a voter by another way.
        if self._leader is not None and self._leader[0] == node_id and not is_static:
            return self._leader[1]
        endpoint = self._chosen(voter.endpoints) if voter is not None else None
        return None if endpoint is None else Endpoint(endpoint.host, endpoint.port)

    def _chosen(self, endpoints: tuple[VoterEndpoint, ...]) -> VoterEndpoint | None:
        """The voter's endpoint on the listener that this node uses for controllers, else its first."""
        named = (endpoint for endpoint in endpoints if endpoint.name == self._listener)
        return next(named, endpoints[0] if endpoints else None)
